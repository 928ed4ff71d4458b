-- The command, so that it is there before anything is loaded; `setup` starts the rest.
if vim.g.loaded_completiond then
  return
end
vim.g.loaded_completiond = true

vim.api.nvim_create_user_command('Completiond', function(given)
  require('completiond.command').run(given.fargs)
end, {
  nargs = '+',
  desc = 'Ghost text of completiond: :help :Completiond',
  complete = function(lead)
    return require('completiond.command').complete(lead)
  end,
})
