"""A worker pool and a queue: each job gets the session that it was handed over in, whichever thread does it.

Prints:
    submitted as it is: nobody's report
    submitted carried: alice's report
    submitted carried: bob's report
    from the queue: alice's mail
    from the queue: bob's mail
    asked afterwards: nobody's thread
"""

from concurrent.futures import ThreadPoolExecutor
from queue import SimpleQueue
from threading import Thread

import ctxruntime as ctx

mails: SimpleQueue[tuple[ctx.Snapshot, str] | None] = SimpleQueue()


def whose(thing: str) -> str:
    """Read the session deep inside, where nobody passed it down."""
    return f"{ctx.SESSION_ID.get('nobody')}'s {thing}"


def send_mails() -> None:
    """Serve the queue for as long as the program runs, each item in the session that put it there."""
    while (item := mails.get()) is not None:
        snapshot, thing = item
        with snapshot:
            print("from the queue:", whose(thing))


def main() -> None:
    """Hand work over from two sessions, to threads that belong to none."""
    with ThreadPoolExecutor(1) as pool:
        pool.submit(int).result()  # its thread is born out here: where threads inherit, it would be alice's for ever
        with ctx.session(session_id="alice"):
            print("submitted as it is:", pool.submit(whose, "report").result())
        for user in ("alice", "bob"):
            with ctx.session(session_id=user):
                print("submitted carried:", pool.submit(ctx.carry(whose), "report").result())
                mails.put((ctx.capture(), "mail"))

        worker = Thread(target=send_mails)
        worker.start()
        mails.put(None)
        worker.join()
        print("asked afterwards:", pool.submit(whose, "thread").result())


if __name__ == "__main__":
    main()
