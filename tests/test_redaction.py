"""Secrets are masked in place, by name and by content; code that only speaks of them is not."""

import base64
import random
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from completiond.redaction import is_secret_file, keeps_secrets, redact, redacted_snapshot

BODY = "\n".join(base64.b64encode(random.Random(i).randbytes(48)).decode() for i in range(25))
KEY = f"-----BEGIN RSA PRIVATE KEY-----\n{BODY}\n-----END RSA PRIVATE KEY-----\n"
RANDOM = "a1B2c3D4e5" * 4


@pytest.mark.parametrize(
    ("text", "secret"),
    [
        (f"x = 1\n{KEY}y = 2\n", BODY.split("\n")[3]),
        (KEY[200:], BODY.split("\n")[9]),
        (KEY[:300], KEY[240:300]),
        (f'key = "{KEY}"'.replace("\n", "\\n"), BODY.split("\n")[5]),
        (KEY.replace("RSA ", "").replace("\n", "\r\n"), BODY.split("\n")[5]),
        ("aws = AKIAIOSFODNN7EXAMPLE\n", "AKIAIOSFODNN7EXAMPLE"),
        (f"git clone https://ghp_{RANDOM}@host/x", f"ghp_{RANDOM}"),
        (f"// github_pat_{RANDOM}", RANDOM),
        (f"client = OpenAI('sk-{RANDOM}')", RANDOM),
        (f"T = `xoxb-12-{RANDOM}`", RANDOM),
        ("db: postgres://user:s3cr3t!pw@host/db", "s3cr3t!pw"),
        (f'curl -H "Authorization: Bearer {RANDOM}"', RANDOM),
        ("jwt = 'eyJhbGciOiJIUzI1.eyJzdWIiOiIxMjM0.SflKxwRJSMeKKF2QT4'", "SflKxwRJSMeKKF2QT4"),
        ('password = "hunter2hunter2"', "hunter2hunter2"),
        ('const dbPassword: string = "hunter2!hunter2";', "hunter2!hunter2"),
        ('{"client_secret": "Zx81-9a8b7c6d5e"}', "Zx81-9a8b7c6d5e"),
        ("API_KEY=0123456789abcdef0123456789abcdef\nX=1", "0123456789abcdef"),
        ("secret_token: Ab12Cd34Ef56Gh78Ij90\n", "Ab12Cd34Ef56Gh78Ij90"),
        ('SECRET_KEY = "django-insecure-#a1$(b2)c3{d4}e5f6g7h8i9"', "#a1$(b2)c3{d4}e5f6g7h8i9"),
        ('API_TOKEN = b"abc123def456"', "abc123def456"),
        ("token = f'abc123def456'", "abc123def456"),
        ('password = (\n    "abc123def456"\n)', "abc123def456"),
        ('pwd = "s3cr3tpass99"', "s3cr3tpass99"),
        ('dbPass: "Tr0ub4dor&3"', "Tr0ub4dor&3"),
        ("PGPASSWORD=Tr0ub4dor3xyz psql", "Tr0ub4dor3xyz"),
        ("Server=db;Uid=me;Pwd=Tr0ub4dor3;", "Tr0ub4dor3"),
        ('password = "blue-horse-42"', "blue-horse-42"),
        ("Authorization: Basic dXNlcjpwYXNzd29yZDEyMw==", "dXNlcjpwYXNzd29yZDEyMw"),
        ('headers["Authorization"] = "token 0a1b2c3d4e5f"', "0a1b2c3d4e5f"),
        (f"T = 'xapp-1-A0B1-{RANDOM}'", RANDOM),
        (f"OPENAI=sk-proj-{RANDOM}-_{RANDOM}", RANDOM),
        (f"KEY=sk-ant-api03-{RANDOM}", RANDOM),
        ("url = 'postgres://u:p%40ss@h'", "p%40ss"),
        (
            "AWS_SECRET_ACCESS_KEY=wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
            "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
        ),
    ],
)
def test_a_secret_is_masked_and_nothing_moves(text: str, secret: str) -> None:
    clean = redact(text)
    assert secret in text and secret not in clean
    assert len(clean) == len(text)
    assert [i for i, c in enumerate(clean) if c in "\r\n"] == [
        i for i, c in enumerate(text) if c in "\r\n"
    ]


@pytest.mark.parametrize(
    "text",
    [
        "token = previous_token_number2\n",
        "token = self.next_token_value2(request)\n",
        'tokenizer = "qwen2.5-coder"',
        'tokens: "array[int]" = make()',
        'const secretName = "my-secret-name";',
        'if token == "<|fim_prefix|>": pass',
        "class SecretStore2:\n    password: str\n",
        "password = getpass('Password for user1: ')",
        "see https://host:8080/path@version",
        "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----",
        'raise ValueError("BEGIN PRIVATE KEY is missing")',
        "sha = 0123456789abcdef0123456789abcdef01234567",
        ".sk-toggleable__label-arrow:before { color: red }",
        "#sk-estimator-doc-link-12 .sk-Parallel-item-container-2 {}",
        'TOKEN_MODEL = "gpt2-small-v2"',
        'secretName: "my-app-secret-v1"',
        'TOKEN_URL = "https://auth.example.com/oauth2/token"',
        'PASSWORD_RESET_TEMPLATE = "auth/password_reset_v2.html"',
        'password = "fixtures/password1.txt"',
        'secret_id = "projects/my-project1/secrets/db"',
        'token_type = "Bearer authentication.required.x"',
        'token = f"user-{user_id2}-{random_part3}-suffix"',
        "connect(password=user1.password2, token=config1.token_value2)",
        "passenger = 'seat-12-row-b3x9'",
        "url = 'postgres://%s:%s@host' % (user, password)",
        "secretSource=tokenSha256HashFromConfigurationFile\n",
    ],
)
def test_code_about_secrets_is_left_alone(text: str) -> None:
    assert redact(text) is text


@given(st.text(max_size=300))
def test_any_text_keeps_its_length_and_is_clean_after_once(text: str) -> None:
    clean = redact(text)
    assert len(clean) == len(text)
    assert redact(clean) == clean


@pytest.mark.parametrize(
    "name",
    [
        ".env",
        "a/.env.local",
        "prod.env",
        ".env-prod",
        ".env_old",
        "x.tfvars.json",
        "id_rsa",
        "C:\\Users\\me\\.ssh\\config",
        "x/tls.PEM",
    ]
    + ["server.key", ".aws/credentials", "terraform.tfstate", ".netrc", "secrets.yaml"],
)
def test_files_of_secrets_are_known_by_name(name: str) -> None:
    assert is_secret_file(name)


@pytest.mark.parametrize(
    "name", [".env.example", "id_rsa.pub", "env.py", "secrets.py", "keys.ts", "monkey.c", ""]
)
def test_other_files_are_not(name: str) -> None:
    assert not is_secret_file(name)


def test_a_link_keeps_what_its_file_keeps(tmp_path: Path) -> None:
    (tmp_path / ".env").write_text("A=1\n")
    (tmp_path / "settings").symlink_to(".env")
    (tmp_path / "again").symlink_to("settings")
    (tmp_path / "round").symlink_to("round")
    assert keeps_secrets(str(tmp_path / "again")) and keeps_secrets(str(tmp_path / ".env"))
    for other in ("round", "gone.py", "a\0b", ""):
        assert not keeps_secrets(str(tmp_path / other) if other else other)


def test_a_snapshot_is_masked_across_its_cursor_and_its_edges() -> None:
    text = f"k = 'ghp_{RANDOM}'\n" + "x = 1\n" * 20 + KEY
    names = {"document": "a", "version": 1, "language": "python", "path": "a.py"}
    cursor = text.index(RANDOM) + 9
    window = redacted_snapshot(text, cursor, **names)
    assert window.before == "k = '" + "*" * 13 and len(window.after) == len(text) - cursor
    assert RANDOM[9:] not in window.after and BODY[:60] not in window.after
    far = "y" * 20_475 + f"ghp_{RANDOM}\n" + "z = 1\n" * 4_000
    window = redacted_snapshot(far, len(far), **names)
    assert RANDOM[-8:] not in window.before


def test_a_window_inside_a_long_key_shows_nothing_of_it() -> None:
    lines = [base64.b64encode(random.Random(i).randbytes(48)).decode() for i in range(700)]
    names = {"document": "a", "version": 1, "language": "python", "path": "a.py"}
    body = "\n".join(lines)
    for text in (f"-----BEGIN PRIVATE KEY-----\n{body}", f"{body}\n-----END PRIVATE KEY-----"):
        for cursor in range(5_000, len(text), 5_000):
            window = redacted_snapshot(text, cursor, **names)
            far = cursor > 40_000 if text.startswith("-") else cursor < len(text) - 40_000
            seen = set(window.before + window.after) - set("-\nBEGINDPRIVATE KEY*")
            assert far or not seen


@pytest.mark.parametrize(
    "value",
    [
        "/home/user1/project2",
        "C:/Users/me2/x",
        "arn:aws:secretsmanager:us-east-1:123456789012:secret:my-secret-1",
        "tok_visa_chargeDeclined1",
    ],
)
def test_places_and_names_are_no_secrets(value: str) -> None:
    for name in ("pwd", "secretRef", "token_id"):
        text = f"{name} = '{value}'"
        assert redact(text) is text or (name == "pwd" and "/" not in value)


@pytest.mark.parametrize("text", ["AccountKey=", "pass_", "pwd", "://a:a", "Bearer 1", "token="])
def test_a_text_of_beginnings_of_secrets_is_read_at_once(text: str) -> None:
    began = time.process_time()
    assert len(redact(text * (200_000 // len(text)))) > 190_000
    assert time.process_time() - began < 1.5
