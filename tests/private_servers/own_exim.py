"""A mail server for one test (Debian's Exim): TLS by a certificate made here, a login, readable mailboxes.

Files tell it which recipients to refuse or defer, each with the answer it gives."""

from __future__ import annotations

import email
import email.policy
import grp
import os
import pwd
import shutil
import signal
import smtplib
import subprocess
import tempfile
from email.message import EmailMessage
from pathlib import Path
from string import Template
from types import TracebackType
from typing import Self
from urllib.parse import quote

from lab.harness.ports import free_port
from lab.harness.servers import program
from lab.harness.waiting import wait_until
from tests.private_servers.certificates import make_certificates

ANSWER_S = 5.0
USER, PASSWORD = "cns", "p@ss:word/1"  # characters that a URL must escape
SERVER_USER = "Debian-exim"
"""The user that Exim runs as when root starts it."""

_CONFIGURATION = Template(
    r"""
exim_user = $user
exim_group = $group
never_users =
deliver_drop_privilege
spool_directory = $directory/spool
log_file_path = $directory/log-%s
log_selector = +smtp_connection
pid_file_path =
primary_hostname = localhost
local_interfaces = 127.0.0.1
daemon_smtp_ports = $port : $tls_port
tls_on_connect_ports = $tls_port
tls_advertise_hosts = $tls_hosts
tls_certificate = $directory/server.pem
tls_privatekey = $directory/server.key
host_lookup =
rfc1413_query_timeout = 0s
smtp_accept_max = 100
smtp_accept_queue_per_connection = 0
smtp_accept_max_per_connection = $mails_per_connection
acl_smtp_mail = mail
acl_smtp_rcpt = rcpt
acl_smtp_data = data
begin acl
mail:
  deny message = $${lookup{$$sender_address}lsearch{$directory/senders}}
       condition = $${lookup{$$sender_address}lsearch{$directory/senders}{yes}{no}}
  accept
rcpt:
  deny message = 530 5.7.0 Authentication required
       !authenticated = *
  deny message = $${lookup{$$local_part@$$domain}lsearch{$directory/refused}}
       condition = $${lookup{$$local_part@$$domain}lsearch{$directory/refused}{yes}{no}}
  defer message = $${lookup{$$local_part@$$domain}lsearch{$directory/deferred}}
       condition = $${lookup{$$local_part@$$domain}lsearch{$directory/deferred}{yes}{no}}
  accept
data:
  deny message = $${lookup{$$recipients}lsearch{$directory/content}}
       condition = $${lookup{$$recipients}lsearch{$directory/content}{yes}{no}}
  accept
begin routers
all:
  driver = accept
  transport = mailbox
begin transports
mailbox:
  driver = appendfile
  maildir_format
  directory = $directory/mail
  create_directory = true
  envelope_to_add
  return_path_add
begin authenticators
plain:
  driver = plaintext
  public_name = PLAIN
  server_prompts = :
  server_condition = $${if and{{eq{$$auth2}{$login}}{eq{$$auth3}{$password}}}}
  server_set_id = $$auth2
  server_advertise_condition = $login_condition
login:
  driver = plaintext
  public_name = LOGIN
  server_prompts = <| Username: | Password:
  server_condition = $${if and{{eq{$$auth1}{$login}}{eq{$$auth2}{$password}}}}
  server_set_id = $$auth1
  server_advertise_condition = $login_condition
"""
)


class OwnExim:
    def __init__(self, *, mails_per_connection: int = 1_000, start_tls: bool = True) -> None:
        """Without `start_tls` it accepts passwords in clear text."""
        self.port, self.tls_port = free_port(), free_port()
        self._program = program("exim")
        self._varying = {
            "mails_per_connection": mails_per_connection,
            "tls_hosts": "*" if start_tls else "",
            "login_condition": "${if def:tls_in_cipher}" if start_tls else "yes",
        }
        self._process: subprocess.Popen[bytes] | None = None
        self._seen: set[tuple[str, str]] = set()
        self.directory = Path(tempfile.mkdtemp(prefix="exim-"))
        self.ca_file = make_certificates(self.directory)
        self._configure()

    @property
    def url(self) -> str:
        """The value of CNS_SMTP_URL."""
        return f"smtp://{USER}:{quote(PASSWORD, safe='')}@localhost:{self.port}"

    @property
    def tls_url(self) -> str:
        return f"smtps://{USER}:{quote(PASSWORD, safe='')}@localhost:{self.tls_port}"

    # -- life ---------------------------------------------------------------------------------------------------------

    def start(self) -> None:
        command = [self._program, "-C", str(self.directory / "exim.conf"), "-bdf", "-q1m"]
        with (self.directory / "output").open("ab") as output:
            self._process = subprocess.Popen(command, stdout=output, stderr=output, start_new_session=True)
        wait_until(self._answers, self.said)

    def stop(self) -> None:
        """Kill the server and the processes of its connections."""
        if self._process is not None:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
            self._process = None

    def connections(self) -> int:
        """The number of connections so far."""
        return self.said().count("(TCP/IP connection count")

    def said(self) -> str:
        return "".join(path.read_text() for path in [*sorted(self.directory.glob("log-*")), self.directory / "output"])

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
        shutil.rmtree(self.directory)

    # -- how it answers ------------------------------------------------------------------------------------------------

    def refuse(self, address: str, answer: str) -> None:
        """Refuse after RCPT TO. The answer begins with its code: '550 no such mailbox'."""
        self._tell("refused", address, answer)

    def put_off(self, address: str, answer: str) -> None:
        self._tell("deferred", address, answer)

    def refuse_mail(self, address: str, answer: str) -> None:
        """Refuse after DATA."""
        self._tell("content", address, answer)

    def refuse_sender(self, address: str, answer: str) -> None:
        self._tell("senders", address, answer)

    def take_all(self) -> None:
        for name in ("refused", "deferred", "content", "senders"):
            (self.directory / name).write_text("")

    def _tell(self, name: str, address: str, answer: str) -> None:
        with (self.directory / name).open("a") as told:
            told.write(f"{address}: {answer}\n")

    # -- mailboxes ----------------------------------------------------------------------------------------------------

    def mails(self, address: str) -> list[EmailMessage]:
        """All mails to the mailbox so far."""
        return [mail for mail in map(_read, self._files()) if mail["Envelope-to"] == address]

    def next(self, address: str) -> EmailMessage:
        """Wait for the next mail to the mailbox. One that is sent again, because its answer came late, is no other."""
        found: list[EmailMessage] = []

        def look() -> bool:
            found[:] = [mail for mail in self.mails(address) if (address, mail["Message-ID"]) not in self._seen]
            return bool(found)

        wait_until(look, lambda: f"nothing came for {address}: {self.said()}")
        self._seen.add((address, found[0]["Message-ID"]))
        return found[0]

    def _files(self) -> list[Path]:
        return sorted((self.directory / "mail" / "new").glob("*"))

    # -- its files ----------------------------------------------------------------------------------------------------

    def _configure(self) -> None:
        root = os.geteuid() == 0
        owner = pwd.getpwnam(SERVER_USER) if root else pwd.getpwuid(os.geteuid())
        text = _CONFIGURATION.substitute(
            user=owner.pw_name,
            group=grp.getgrgid(owner.pw_gid).gr_name,
            directory=self.directory,
            port=self.port,
            tls_port=self.tls_port,
            login=USER,
            password=PASSWORD,
            **self._varying,
        )
        (self.directory / "exim.conf").write_text(text)
        self.take_all()
        (self.directory / "spool").mkdir()
        self.directory.chmod(0o755)
        for path in (self.directory, *self.directory.rglob("*")):
            if path.name != "exim.conf":  # exim reads only a configuration that root owns
                os.chown(path, owner.pw_uid, owner.pw_gid)

    def _answers(self) -> bool:
        assert self._process is not None and self._process.poll() is None, self.said()
        try:
            smtplib.SMTP("localhost", self.port, timeout=ANSWER_S).close()
        except OSError:
            return False
        return True


def _read(path: Path) -> EmailMessage:
    mail = email.message_from_bytes(path.read_bytes(), policy=email.policy.default)
    assert isinstance(mail, EmailMessage)
    return mail
