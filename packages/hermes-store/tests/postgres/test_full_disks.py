"""A server whose disk really is full. Where none can be mounted, its error codes are tested alone."""

import asyncio
import os
import shutil
import tempfile
from pathlib import Path

from hermes_messages import UserMessage
from hermes_store import StoreFullError
from postgres.server import MakeStore, Server, unprivileged_user
from postgres.test_both_back_ends import load

disks = load("test_full_disks")

if disks.can_mount():

    def test_what_was_acknowledged_before_the_disk_was_full_is_kept(
        server: Server, make_store: MakeStore, schema: str
    ) -> None:
        async def main(disk: Path) -> None:
            ballast = disk / "ballast"
            await server.ask(f"CREATE TABLESPACE small_{schema} LOCATION '{disk}/t'")
            await server.ask(f"CREATE ROLE small_{schema} LOGIN SUPERUSER PASSWORD 'pw'")
            await server.ask(f"ALTER ROLE small_{schema} SET default_tablespace = 'small_{schema}'")
            address = f"postgresql://small_{schema}:pw@127.0.0.1:{server.port}/postgres"
            kept: list[str] = []
            refused: list[str] = []
            async with type(make_store())(address, schema=schema) as db:
                await db.create_session("s")
                ballast.write_bytes(b"x" * 1_000_000)
                number = 0
                while len(refused) < 3:
                    number += 1
                    try:
                        await db.append_message("s", UserMessage(os.urandom(3000).hex()), uid=str(number))
                        kept.append(str(number))
                    except StoreFullError as error:
                        refused.append(str(error))
                assert all("earlier messages are" in message for message in refused)
                assert [item.uid for item in await db.get_messages("s")] == kept
                ballast.unlink()
                await db.append_message("s", UserMessage("there is room"), uid="again")
                assert [item.uid for item in await db.get_messages("s")] == [*kept, "again"]
                assert await db.check_integrity() == []
            await server.ask(f'DROP SCHEMA "{schema}" CASCADE')
            await server.ask(f"DROP TABLESPACE small_{schema}")
            await server.ask(f"DROP ROLE small_{schema}")

        folder = Path(tempfile.mkdtemp(prefix="hermes-postgres-disk-"))
        folder.chmod(0o755)
        try:
            with disks.small_disk(folder / "disk", "4m") as disk:
                (disk / "t").mkdir()
                owner = unprivileged_user()
                os.chown(disk / "t", owner["user"], owner["group"])
                asyncio.run(main(disk))
        finally:
            shutil.rmtree(folder)
