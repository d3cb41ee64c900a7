/** Code that checks a call, as people may copy it. */

export const CALL = `POST /your/path
Content-Type: application/json
X-Hark-Event: transcript.completed
X-Hark-Delivery: 17
X-Hark-Signature: t=1760000000,v1=5d41…

{"event":"transcript.completed","id":123,"status":"completed","title":"talk.mp3",
 "created_at":"…","completed_at":"…","language":"en","duration":274.1,"word_count":801}`;

const PYTHON = `import hashlib, hmac, time

def is_from_hark(secret, header, body):            # body: the bytes as they came
    parts = [part.split("=", 1) for part in header.split(",")]
    t = next(value for name, value in parts if name == "t")
    expected = hmac.new(secret.encode(), t.encode() + b"." + body, hashlib.sha256).hexdigest()
    is_signed = any(hmac.compare_digest(expected, value) for name, value in parts if name == "v1")
    return is_signed and abs(time.time() - int(t)) < 300`;

const NODE = `import { createHmac, timingSafeEqual } from "node:crypto";

export function isFromHark(secret, header, body) { // body: the Buffer as it came
  const parts = header.split(",").map((part) => part.split("="));
  const t = parts.find(([name]) => name === "t")?.[1] ?? "";
  const expected = createHmac("sha256", secret).update(t + ".").update(body).digest();
  const isSigned = parts.some(([name, value]) => {
    const given = Buffer.from(name === "v1" ? value : "", "hex");
    return given.length === expected.length && timingSafeEqual(given, expected);
  });
  return isSigned && Math.abs(Date.now() / 1000 - Number(t)) < 300;
}`;

export const CHECKS = { python: { name: "Python", code: PYTHON }, node: { name: "Node.js", code: NODE } } as const;

export type CheckLanguage = keyof typeof CHECKS;
