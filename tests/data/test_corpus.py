"""Text is read without conversion, and unreadable files raise a one-sentence error."""

import errno
import hashlib
import http.server
import os
import threading

import pytest

from tinyattn.data import CharVocabulary, InputError, load_corpus, read_text
from tinyattn.data.corpus import decode_text, shakespeare_corpus


def write(folder, content):
    path = folder / "text.txt"
    path.write_bytes(content)
    return path


def test_byte_order_mark_is_dropped_at_the_beginning_only(tmp_path):
    text = read_text(write(tmp_path, b"\xef\xbb\xbfab\xef\xbb\xbf"))
    assert text == "ab\ufeff"


def test_line_ends_are_kept_as_they_are(tmp_path):
    text = read_text(write(tmp_path, b"a\r\nb\rc\n"))
    assert text == "a\r\nb\rc\n"
    vocabulary = CharVocabulary.from_text(text)
    assert vocabulary.decode(vocabulary.encode(text)) == text


@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"])
def test_undecodable_bytes_are_named_with_offset_and_line(tmp_path, mark):
    with pytest.raises(InputError, match=rf"0xff at offset {7 + len(mark)} \(line 2\)"):
        read_text(write(tmp_path, mark + b"good\nab\xffcd"))


@pytest.mark.parametrize("content, words", [(b"", "is empty"), (b" \n\t ", "white space")])
def test_a_text_of_nothing_is_refused(tmp_path, content, words):
    with pytest.raises(InputError, match=words):
        read_text(write(tmp_path, content))


def test_a_missing_file_and_a_directory_have_different_errors(tmp_path):
    with pytest.raises(InputError, match=r"no file .*nowhere"):
        load_corpus(str(tmp_path / "nowhere"))
    with pytest.raises(InputError, match="is a directory"):
        load_corpus(str(tmp_path))


def test_pydoc_corpus_is_long_text():
    text = load_corpus("pydoc")
    assert len(text) > 300_000
    assert "import" in text


@pytest.fixture
def server():
    """A server on loopback that sends ``content`` and counts the requests."""

    class Handler(http.server.BaseHTTPRequestHandler):
        content = b"First Citizen:\nSpeak.\n"
        requests = 0

        def do_GET(self):
            Handler.requests += 1
            self.send_response(200)
            self.send_header("Content-Length", str(len(self.content)))
            self.end_headers()
            self.wfile.write(self.content)

        def log_message(self, *arguments):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as running:
        thread = threading.Thread(target=running.serve_forever, daemon=True)
        thread.start()
        running.handler = Handler
        running.url = f"http://127.0.0.1:{running.server_port}/input.txt"
        yield running
        running.shutdown()
        thread.join()


def test_shakespeare_is_fetched_once_and_checked(server, tmp_path):
    digest = hashlib.sha256(server.handler.content).hexdigest()
    for _ in range(2):
        text = shakespeare_corpus(server.url, digest, tmp_path)
        assert text == "First Citizen:\nSpeak.\n"
    assert server.handler.requests == 1


def test_a_damaged_copy_is_fetched_again(server, tmp_path):
    digest = hashlib.sha256(server.handler.content).hexdigest()
    (tmp_path / "tinyshakespeare.txt").write_text("something else")
    assert shakespeare_corpus(server.url, digest, tmp_path).startswith("First Citizen")


def test_content_with_another_digest_is_refused(server, tmp_path):
    with pytest.raises(InputError, match="sha256 differs"):
        shakespeare_corpus(server.url, "0" * 64, tmp_path)


def test_a_folder_that_cannot_be_written_is_named(server, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(
        InputError, match=r"cannot write Tiny Shakespeare to .*file.* TINYATTN_CACHE"
    ):
        shakespeare_corpus(server.url, "0" * 64, tmp_path / "file" / "folder")


@pytest.mark.parametrize(
    "error",
    [
        PermissionError("Pooch could not write to data cache folder"),
        PermissionError(errno.EACCES, "Permission denied", "folder"),
        OSError(errno.EROFS, "Read-only file system"),
        OSError(errno.ENOSPC, "No space left on device"),
    ],
)
def test_a_disk_error_is_not_reported_as_a_network_error(tmp_path, monkeypatch, error):
    def retrieve(*arguments, **options):
        raise error

    monkeypatch.setattr("pooch.retrieve", retrieve)
    with pytest.raises(InputError, match=r"cannot write Tiny Shakespeare to .*TINYATTN_CACHE"):
        shakespeare_corpus("http://127.0.0.1:9/input.txt", "0" * 64, tmp_path)


@pytest.mark.skipif(os.name == "nt", reason="a passwd database is POSIX's")
def test_a_user_without_a_home_directory_gets_advice(server, tmp_path, monkeypatch):
    import pwd

    def unknown(uid):
        raise KeyError(f"getpwuid(): uid not found: {uid}")

    for name in ("HOME", "XDG_CACHE_HOME", "TINYATTN_CACHE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(pwd, "getpwuid", unknown)
    monkeypatch.chdir(tmp_path)
    digest = hashlib.sha256(server.handler.content).hexdigest()
    with pytest.raises(InputError, match=r"no home directory .*TINYATTN_CACHE"):
        shakespeare_corpus(server.url, digest)
    assert list(tmp_path.iterdir()) == []
    monkeypatch.setenv("TINYATTN_CACHE", str(tmp_path / "cache"))
    assert shakespeare_corpus(server.url, digest).startswith("First Citizen")


def test_no_network_is_one_sentence(tmp_path):
    with pytest.raises(InputError, match="cannot download Tiny Shakespeare"):
        shakespeare_corpus("http://127.0.0.1:9/input.txt", "0" * 64, tmp_path)


@pytest.mark.parametrize(
    "content, option",
    [
        ("plain".encode("utf-16"), "iconv -f utf-16 -t utf-8"),
        ("中文".encode("gb18030"), "-f ENCODING (such as latin1 or gb18030)"),
    ],
)
def test_the_error_about_another_encoding_says_how_to_convert_it(content, option):
    with pytest.raises(InputError) as caught:
        decode_text(content, "text.txt")
    assert option in str(caught.value)


def test_the_cache_may_be_in_the_home_directory(tmp_path, monkeypatch):
    text = "To be"
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("TINYATTN_CACHE", "~/cache")
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache" / "tinyshakespeare.txt").write_text(text)
    digest = hashlib.sha256(text.encode()).hexdigest()
    assert shakespeare_corpus("http://0.0.0.0/none", digest) == text
