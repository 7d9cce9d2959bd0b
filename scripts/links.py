#!/usr/bin/env python3
"""Asks for each external link of the pages, and prints those that lead nowhere.

  scripts/links.py            every link, with a line for each that is dead
  scripts/links.py --list     prints the links, and asks for none

Ends with 1 if a link is dead. Needs the network, so no suite of `make test` runs it: .github/workflows/links.yaml does,
each week. tests/structure has links within the repository.
"""

import argparse
import collections
import concurrent.futures
import http.client
import re
import sys
import time
import urllib.error
import urllib.parse
import urllib.request

from prose import ROOT, lines_of_prose, pages

TRIES, WAIT = 3, 5  # a try more after WAIT, then 2 * WAIT seconds
TIMEOUT = 30  # seconds
HOSTS_AT_ONCE = 8  # of one host, links are asked for one after the other
# What a server says when it is busy; the link may be fine.
BUSY = {408, 425, 429, 500, 502, 503, 504}
# Beginnings of links that answer a browser and refuse a program, each with the reason.
REFUSE_PROGRAMS = {}


def links_of(text):
    """(number of the line, link) of each external link of a page; what is quoted as code is no link."""
    for number, line in lines_of_prose(text):
        plain = re.sub(r"`[^`]*`", "", line)
        for link in re.findall(r"\]\((https?://[^)\s]+)\)|<(https?://[^>\s]+)>", plain):
            yield number, "".join(link).partition("#")[0]


def all_links():
    """Each link, with the places that have it."""
    found = collections.defaultdict(list)
    for path in pages():
        for number, link in links_of(path.read_text()):
            found[link].append(f"{path.relative_to(ROOT)}:{number}")
    return found


def ask(link):
    """One try: None, or why the link leads nowhere, and whether another try may help."""
    request = urllib.request.Request(link, headers={"User-Agent": "lockstep-links (scripts/links.py)"})
    try:
        with urllib.request.urlopen(request, timeout=TIMEOUT):
            return None, False
    except urllib.error.HTTPError as error:
        return f"{error.code} {error.reason}", error.code in BUSY
    except (OSError, ValueError, http.client.HTTPException) as error:
        return str(getattr(error, "reason", error)), True


def trouble(link, wait=WAIT):
    """Why the link leads nowhere, after all tries; None if it leads somewhere."""
    for attempt in range(1, TRIES + 1):
        why, again = ask(link)
        if why is None or not again:
            return why
        if attempt < TRIES:
            time.sleep(attempt * wait)
    return why


def dead_links(links, refuse=None, wait=WAIT):
    """{link: why} of those that lead nowhere."""
    refuse = REFUSE_PROGRAMS if refuse is None else refuse
    hosts = collections.defaultdict(list)
    for link in links:
        if not link.startswith(tuple(refuse)):
            hosts[urllib.parse.urlsplit(link).netloc].append(link)
    with concurrent.futures.ThreadPoolExecutor(HOSTS_AT_ONCE) as threads:
        answers = threads.map(lambda of_host: [(link, trouble(link, wait)) for link in of_host], hosts.values())
        return {link: why for answer in answers for link, why in answer if why is not None}


def main(words):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--list", action="store_true", help="print the links, and ask for none")
    options = parser.parse_args(words)
    links = all_links()
    if options.list:
        print("\n".join(sorted(links)))
        return 0
    dead = dead_links(links)
    for link, why in sorted(dead.items()):
        print(f"{', '.join(links[link])}: {link}: {why}")
    print(f"{len(links)} links, {len(dead)} dead")
    return 1 if dead else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
