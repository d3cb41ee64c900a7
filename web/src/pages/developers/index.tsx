import type { PageProps } from "../../app";

export default function Page(_: PageProps) {
  return <div class="page" />;
}
