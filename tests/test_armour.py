"""What is a private key's is masked wherever it is cut and however it is quoted; code is not."""

import base64
import random
import time

import pytest

from completiond.redaction import redact

pytestmark = pytest.mark.slow

KIND = "PRIVATE KEY"
BEGIN, END = f"-----BEGIN {KIND}-----", f"-----END {KIND}-----"
LINES = [base64.b64encode(random.Random(i).randbytes(48)).decode() for i in range(20)]
LINES[-1] = LINES[-1][:11] + "="
URL_SAFE = [line.replace("+", "-").replace("/", "_") for line in LINES]

QUOTED = {
    "plain": "{}\n",
    "windows": "{}\r\n",
    "yaml": "      {}\n",
    "comment": "// {}\n",
    "shell comment": "    # {}\n",
    "block comment": " * {}\n",
    "removed": "-{}\n",
    "added": "+{}\n",
    "added and indented": "+    {}\n",
    "mail": "> {}\n",
    "escaped": "{}\\n",
    "escaped for windows": "{}\\r\\n",
    "escaped twice": "{}\\\\n",
    "continued": "{}\\n\\\n",
    "strings": '    "{}\\n"\n',
    "php": "'{}' .\n",
    "list": '  "{}",\n',
    "added up": '  + "{}\\n"\n',
    "web": "{}<br>\n",
    "one line of the web": "{}<br>",
}
HEADERS = [
    "Version: GnuPG v2",
    "Comment: of somebody",
    "Proc-Type: 4,ENCRYPTED",
    "DEK-Info: AES-128-CBC,0A1B2C3D",
]


@pytest.mark.parametrize("quote", QUOTED.values(), ids=QUOTED.keys())
@pytest.mark.parametrize("lines", [LINES, URL_SAFE, [*HEADERS, "", *LINES]])
@pytest.mark.parametrize("seen", ["both", "begin", "end"])
def test_a_key_is_masked_with_one_end_in_sight(quote: str, lines: list[str], seen: str) -> None:
    first = [BEGIN] if seen != "end" else []
    last = [END] if seen != "begin" else []
    text = "".join(map(quote.format, [*first, *lines, *last]))
    text = f'x = 1\nkey = "{text}' if seen != "end" else text
    clean = redact(text)
    assert len(clean) == len(text)
    assert not [line for line in lines[-20:] if line in clean]


OTHERS = {
    "remark": ("{}  # gitleaks:allow\n", "{}\n"),
    "found": ("12:{}\n", "13:{}\n"),
    "numbered": ("   9\t{}\n", "  10\t{}\n"),
    "spaces": ("K={} ", "{} "),
    "calls": ("sb.append('{}\\n');\n", "sb.append('{}\\n');\n"),
    "values": ("a: {}\n", "b1: {}\n"),
    "notes": ("{}\n", "{}  // of the key\n"),
}


@pytest.mark.parametrize(("first", "quote"), OTHERS.values(), ids=OTHERS.keys())
def test_long_lines_are_masked_among_other_words(first: str, quote: str) -> None:
    clean = redact(first.format(BEGIN) + "".join(map(quote.format, LINES)))
    assert not [line for line in LINES[:-1] if line in clean]


def test_other_marks_and_short_examples() -> None:
    ssh2 = "---- {} SSH2 ENCRYPTED PRIVATE KEY ----\n"
    assert LINES[0] not in redact(ssh2.format("BEGIN") + LINES[0] + "\n" + ssh2.format("END"))
    assert "MIIEsecret" not in redact(f'K = """{BEGIN}\nMIIEsecret\n{END}"""')


def test_putty_writes_keys_without_dashes() -> None:
    body = "\n".join(LINES)
    clean = redact(f"Encryption: none\nPrivate-Lines: 20\n{body}\nPrivate-MAC: 0a1b\n")
    assert LINES[0] not in clean and LINES[-1] not in clean


@pytest.mark.parametrize(
    "code",
    [
        f'if line == "{BEGIN}":\n    kind = "pkcs8"\n    reader = Reader(line)\n'
        f'elif line == "{END}":\n    kind = None\nreturn kind\n',
        f'if line == "{BEGIN}":\n    continue\nif line == "{END}":\n    break\n',
        f'BEGIN = "{BEGIN}"\nEND = "{END}"\n',
        f'MARKS = (\n    "{BEGIN}",\n    "{END}",\n)\n',
        f'pem = "{BEGIN}\\n" + base64Encoded + "\\n{END}"\n',
        f'pem = "{BEGIN}\\n"\n    + encodedBody\n    + "\\n{END}"\n',
        f'pem = f"{BEGIN}\\n{{wrapped_body2}}\\n{END}\\n"\n',
        f'raise ValueError("no {BEGIN}")\n\n\ndef parse_pkcs8_key_of_curves():\n    pass\n',
        f'const (\n\tA = "{BEGIN}"\n\tdefaultPrivateKeyBlockTypeNamePkcs8V2\n\tother\n)\n',
        f'(\n  "{BEGIN}",\n  parseX509CertificateRequestV3,\n  encodedBody,\n  "{END}",\n)\n',
        f'# up to\n#   {END}\nimport Base64Decoder\n\nprivateKeyReader\n"{END}"\n',
    ],
)
def test_code_that_reads_keys_stays(code: str) -> None:
    assert redact(code) is code


def test_code_around_a_key_stays() -> None:
    before, after = "def key():\n    return (\n", "    )\n\n\ndef other_key_2():\n    continue\n"
    clean = redact(f'{before}"""{BEGIN}\n' + "\n".join(LINES) + f'\n{END}"""\n{after}')
    assert clean.startswith(before) and clean.endswith(after)


RUNS = ["+", "n", "r", "=", "A", "-", " ", "\\n", "\\", "a1", "\n", "\r\n", '"', "://", "token"]
RUNS += ["nr+", "Bearer ", "sk-", "password=", "token='a1", "-----BEGIN ", "Comment: ", "<br>"]


@pytest.mark.parametrize("run", [*RUNS, BEGIN, END, BEGIN + "aaaaaaaa", "eyJ", "token=" + 20 * "A"])
def test_no_text_takes_more_than_time_in_proportion(run: str) -> None:
    """Twice what is nasty takes about twice as long; far from what a square would take."""
    long = run * (200_000 // len(run))
    shapes = [
        f"{long}!\n{END}\nx = \n",
        f"x\n{END}{long}!\n",
        f"{BEGIN}{long}!\nx\n",
        f"{BEGIN}\n{long}\n{END}",
        f"token={long}!",
        f"password = '{long}'",
    ]
    for text in shapes:
        started = time.process_time()
        assert len(redact(text)) == len(text)
        assert time.process_time() - started < 1.5
