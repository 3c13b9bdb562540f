"""The process of users.Asker: it reads the requests, then sends one for each line and prints the result.

Arguments: SOCKET PATIENCE. Run by as_user.py.
"""

import itertools
import json
import sys
import time

from machine import UnixConnection


def ask(socket, patience, method, path, body=None):
    connection = UnixConnection(socket, timeout=patience)
    try:
        connection.request(method, path, json.dumps(body) if body is not None else None)
        answer = connection.getresponse()
        return answer.status, answer.read().decode(errors="replace")
    finally:
        connection.close()


def main():
    socket, patience, steps = sys.argv[1], float(sys.argv[2]), json.loads(sys.stdin.readline())
    print("ready", flush=True)
    for step, _ in zip(itertools.cycle(steps), sys.stdin):
        said = {"status": 0, "error": "", "body": ""}
        begin = time.monotonic()
        try:
            said["status"], said["body"] = ask(socket, patience, *step)
        except Exception as error:
            said["error"] = repr(error)
        print(json.dumps({"seconds": time.monotonic() - begin, **said}), flush=True)


main()
