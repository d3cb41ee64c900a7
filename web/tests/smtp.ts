/** A mail server that keeps what it is sent: as much of SMTP as a client without extensions speaks. */

import { createServer, type Server } from "node:net";

export interface Mail {
  to: string[];
  data: string;
}

export class MailServer {
  readonly mails: Mail[] = [];
  #server: Server;

  private constructor(server: Server) {
    this.#server = server;
  }

  static async listen(port: number): Promise<MailServer> {
    const server = createServer();
    const mails = new MailServer(server);
    server.on("connection", (socket) => {
      let rest = "";
      let isData = false;
      let mail: Mail = { to: [], data: "" };
      socket.setEncoding("utf8");
      socket.write("220 test ESMTP\r\n");
      socket.on("error", () => undefined);
      socket.on("data", (piece: string) => {
        rest += piece;
        for (;;) {
          const end = rest.indexOf("\r\n");
          if (end < 0) return;
          const line = rest.slice(0, end);
          rest = rest.slice(end + 2);
          if (isData) {
            if (line === ".") {
              isData = false;
              mails.mails.push(mail);
              mail = { to: [], data: "" };
              socket.write("250 kept\r\n");
            } else mail.data += `${line.startsWith("..") ? line.slice(1) : line}\n`;
            continue;
          }
          const command = line.toUpperCase();
          if (command.startsWith("RCPT TO:")) mail.to.push(/<([^>]*)>/.exec(line)?.[1] ?? "");
          if (command === "DATA") {
            isData = true;
            socket.write("354 go on\r\n");
          } else if (command === "QUIT") socket.end("221 bye\r\n");
          else socket.write("250 ok\r\n");
        }
      });
    });
    await new Promise<void>((resolve, reject) => {
      server.once("error", reject);
      server.listen(port, "127.0.0.1", resolve);
    });
    return mails;
  }

  /** The text of the newest mail to an address, decoded. */
  textTo(address: string): string | null {
    const mail = this.mails.findLast((candidate) => candidate.to.includes(address));
    if (!mail) return null;
    const [head = "", ...body] = mail.data.split("\n\n");
    const text = body.join("\n\n");
    if (/base64/i.test(head)) return Buffer.from(text, "base64").toString("utf8");
    if (/quoted-printable/i.test(head)) {
      return Buffer.from(text.replaceAll("=\n", "").replaceAll(/=([0-9A-F]{2})/g, (_, hex: string) => String.fromCharCode(Number.parseInt(hex, 16))), "latin1").toString("utf8");
    }
    return text;
  }

  close(): void {
    this.#server.close();
  }
}
