"""Shared by all other files: runs a program, waits for a condition, and has the one kind of error."""

import subprocess
import time


class Problem(Exception):
    """One sentence for the user: what failed and what to do about it."""


class Interrupted(BaseException):
    """A signal requests the end. Not an Exception: no caller may take it for a failure of its own."""

    def __init__(self, number):
        super().__init__(number)
        self.number = number


def run(*argv, check=True, stdin=None, timeout=60):
    """Runs a program to its end and returns its standard output; with check, a failure is a Problem that quotes it."""
    words = [str(word) for word in argv]
    try:
        done = subprocess.run(words, input=stdin, capture_output=True, text=True, timeout=timeout)
    except FileNotFoundError:
        raise Problem(f"The program '{words[0]}' is missing; run 'make setup'.") from None
    except subprocess.TimeoutExpired:
        raise Problem(f"'{' '.join(words)}' did not end within {timeout} s.") from None
    if check and done.returncode != 0:
        said = (done.stderr.strip() or done.stdout.strip() or "nothing").splitlines()[-1]
        raise Problem(f"'{' '.join(words)}' failed with status {done.returncode}; it said: {said}")
    return done.stdout


def succeeds(*argv, timeout=60):
    """True when the program ends with status 0; False also when it is missing or too slow."""
    try:
        return subprocess.run([str(word) for word in argv], capture_output=True, timeout=timeout).returncode == 0
    except (FileNotFoundError, subprocess.TimeoutExpired):
        return False


def wait_until(what, condition, seconds, interval=0.05):
    """Polls until condition() is true and returns its value. `what` completes "it took too long until ...".

    A condition may raise OSError or Problem until it holds; a timeout quotes the last one. Fatal is for a condition
    that can never hold, and ends the wait at once.
    """
    end = time.monotonic() + seconds
    reason = ""
    while True:
        try:
            value = condition()
            if value:
                return value
        except Fatal as error:
            raise Problem(str(error)) from None
        except (OSError, Problem) as error:
            reason = f" ({error})"
        if time.monotonic() >= end:
            raise Problem(f"{seconds} s were not enough until {what}{reason}.")
        time.sleep(interval)


class Fatal(Exception):
    """Raised inside a condition of wait_until that can never hold."""
