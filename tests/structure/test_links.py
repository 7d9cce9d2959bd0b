"""scripts/links.py, against a server on this machine: no test here needs the network."""

import collections
import http.server
import os
import pathlib
import sys
import threading
import unittest
import unittest.mock

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))
import links  # noqa: E402

# By path, what the server answers, one after the other; the last one stays.
ANSWERS = {"/there": [200], "/gone": [404], "/busy": [503, 429, 200], "/always-busy": [503], "/moved": [302]}


class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.server.asked[self.path] += 1
        answers = ANSWERS[self.path]
        self.send_response(answers[min(self.server.asked[self.path], len(answers)) - 1])
        self.send_header("Location", "/there")
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_):
        pass


class Links(unittest.TestCase):
    def test_external_links_are_found_and_code_is_none(self):
        text = ("[a](https://a.example/x#part) <http://b.example>\n`[c](https://c.example)` [d](page.md)\n"
                "```\n[e](https://e.example)\n```\n| [f](https://f.example) | [g](https://g.example) |\n")
        self.assertEqual(list(links.links_of(text)), [
            (1, "https://a.example/x"), (1, "http://b.example"), (6, "https://f.example"), (6, "https://g.example")])

    def test_the_pages_have_links(self):
        found = links.all_links()
        self.assertGreater(len(found), 40)
        self.assertIn("https://semver.org/", found)

    def test_each_server_that_refuses_programs_has_a_link_and_a_reason(self):
        for begin, reason in links.REFUSE_PROGRAMS.items():
            self.assertTrue(any(link.startswith(begin) for link in links.all_links()), begin)
            self.assertTrue(reason)

    @unittest.mock.patch.dict(os.environ, {"no_proxy": "127.0.0.1"})
    def test_a_dead_link_is_told_and_a_busy_server_asked_again(self):
        with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
            server.asked = collections.Counter()
            threading.Thread(target=server.serve_forever, daemon=True).start()
            base = f"http://127.0.0.1:{server.server_port}"
            given = [base + path for path in ("/there", "/gone", "/busy", "/always-busy", "/moved")]
            dead = links.dead_links(given, refuse={}, wait=0)
            self.assertEqual(dead, {f"{base}/gone": "404 Not Found", f"{base}/always-busy": "503 Service Unavailable"})
            self.assertEqual((server.asked["/gone"], server.asked["/always-busy"]), (1, links.TRIES))
            self.assertEqual(links.dead_links(given, refuse={base: "a reason"}, wait=0), {})
            server.shutdown()
        self.assertIn("refused", links.dead_links([f"{base}/there"], refuse={}, wait=0)[f"{base}/there"])


if __name__ == "__main__":
    unittest.main()
