-- The status in a few characters. Knows the object of `completiond/status` only.
local M = {}

function M.text(status, enabled)
  if not enabled then
    return 'completiond off'
  end
  if status.state ~= 'ready' then
    local percent = status.progress and (' %d%%'):format(status.progress) or ''
    return ('completiond %s%s'):format(status.state, percent)
  end
  local last = status.last
  if not last then
    return 'completiond'
  elseif last.reason then
    return 'completiond –'
  elseif last.latencyMs then
    return ('completiond %d ms'):format(math.floor(last.latencyMs + 0.5))
  end
  return 'completiond ·' -- what was typed had been predicted
end

return M
