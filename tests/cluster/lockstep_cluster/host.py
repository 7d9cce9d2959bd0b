"""What every other file needs: running a program, waiting for a condition, and the one kind of error."""

import subprocess
import time


class Problem(Exception):
    """One sentence for a person: what is wrong and what to do about it."""


class Interrupted(BaseException):
    """A signal asked us to end. Not an Exception: nothing on the way may take it for a failure of its own."""

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
    """Polls until condition() is true and returns what it gave. `what` completes "it took too long until ...".

    A condition may raise OSError or Problem while the thing is not there yet: the last one is quoted when time is over.
    Fatal is for what can never come true and ends the wait at once.
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
    """Raised inside a condition of wait_until: waiting longer is of no use."""
