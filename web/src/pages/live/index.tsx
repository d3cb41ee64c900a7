/** Live transcription, and its captions for a second screen. */

import type { PageProps } from "../../app";
import { path } from "../../router";
import { Captions } from "./captions";
import { LivePage } from "./page";
import "./live.css";

export default function Live(_: PageProps) {
  return path.value === "/captions" ? <Captions /> : <LivePage />;
}
