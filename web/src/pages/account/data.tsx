/** Taking everything along, and deleting everything. */

import { useEffect, useRef, useState } from "preact/hooks";
import { api, callHeaders, failed, isAbort, Problem, throwProblem, unwrap } from "../../api/client";
import { isAdmin } from "../../app";
import { accountTexts } from "../../i18n/account";
import { common } from "../../i18n/common";
import { navigate } from "../../router";
import { loadSession, session, tellOtherTabs, type Account } from "../../session";
import { Button } from "../../ui/button";
import { Dialog } from "../../ui/dialog";
import { saveBlob } from "../../ui/download";
import { TextField } from "../../ui/field";
import { bytes, number } from "../../ui/format";
import { ErrorNotice, Notice, ProgressBar } from "../../ui/states";
import { toast } from "../../ui/toast";
import { readExport, type ExportCount } from "./export";
import { focusOn, Group, isolated, useFocusWrong } from "./pieces";

export function Data() {
  const account = session.value?.account;
  if (!account) return null;
  return (
    <>
      <Export />
      <Delete account={account} />
    </>
  );
}

/** How many transcripts the export will have, for its bar; null where that can't be said. */
async function transcriptsInAll(signal: AbortSignal): Promise<number | null> {
  try {
    const { data } = await api.GET("/v1/transcripts", { params: { query: { per_page: 1 } }, signal });
    return data?.total ?? null;
  } catch {
    return null;
  }
}

function Export() {
  const t = accountTexts().data;
  const c = common();
  const [count, setCount] = useState<ExportCount | null>(null);
  const [all, setAll] = useState<number | null>(null);
  const [file, setFile] = useState<{ blob: Blob; name: string; count: ExportCount } | null>(null);
  const [error, setError] = useState<unknown>(null);
  const abort = useRef<AbortController | null>(null);
  useEffect(() => () => abort.current?.abort(), []);

  const run = async () => {
    const control = new AbortController();
    abort.current = control;
    setError(null);
    setFile(null);
    setCount({ lines: 0, bytes: 0, transcripts: 0, isWhole: false });
    focusOn("account-export-cancel");
    try {
      setAll(await transcriptsInAll(control.signal));
      const response = await fetch("/v1/account/export", { headers: callHeaders(), signal: control.signal });
      if (!response.ok || !response.body) await throwProblem(response);
      let shownAt = 0;
      const read = await readExport(response.body as ReadableStream<Uint8Array<ArrayBuffer>>, (next) => {
        // Thousands of pieces arrive a second: ten pictures of them are enough.
        if (performance.now() - shownAt < 100) return;
        shownAt = performance.now();
        setCount(next);
      });
      if (!read) throw new Problem(0, t.exportBroken);
      const name = `hark-account-${new Date().toISOString().slice(0, 10)}.ndjson`;
      saveBlob(read.blob, name);
      setFile({ blob: read.blob, name, count: read.count });
    } catch (failure) {
      // A connection that breaks in the middle is told apart from none at all.
      if (!isAbort(failure)) setError(failure instanceof Problem ? failure : count ? new Problem(0, t.exportBroken) : failed(failure));
    } finally {
      if (abort.current === control) {
        setCount(null);
        focusOn("account-export-start");
      }
    }
  };

  return (
    <Group title={t.exportTitle} text={t.exportText}>
      {count ? (
        <div class="stack tight account-narrow">
          <p class="small numeric">{all === null ? t.exportSoFar(number(count.lines), bytes(count.bytes)) : `${t.exportTranscripts(number(count.transcripts), number(all))}, ${bytes(count.bytes)}`}</p>
          <ProgressBar share={all ? count.transcripts / all : null} label={t.exporting} />
          <div class="row tight">
            <Button id="account-export-cancel" onClick={() => abort.current?.abort()}>{c.cancel}</Button>
          </div>
        </div>
      ) : (
        <div class="row tight">
          <Button kind="primary" icon="download" id="account-export-start" onClick={() => void run()}>
            {t.exportAction}
          </Button>
          {file && <Button onClick={() => saveBlob(file.blob, file.name)}>{t.exportSave}</Button>}
        </div>
      )}
      <div role="status">
        {file && (
          <Notice kind="good" icon="check">
            {t.exportDone(number(file.count.lines), bytes(file.count.bytes))}
          </Notice>
        )}
      </div>
      <ErrorNotice error={error} onRetry={count ? undefined : () => void run()} />
    </Group>
  );
}

function Delete({ account }: { account: Account }) {
  const t = accountTexts().data;
  const [isAsking, setAsking] = useState(false);
  return (
    <Group title={t.deleteTitle} danger>
      {isAdmin(account) ? (
        <div class="stack tight">
          <p>{t.adminText}</p>
          <p>
            <code class="account-command">hark account delete {account.email}</code>
          </p>
        </div>
      ) : (
        <>
          <div class="prose account-measure">
            <p>{t.deleteText}</p>
            <ul>
              {t.deleteWhat.map((what) => (
                <li key={what}>{what}</li>
              ))}
            </ul>
            <p>{t.deleteKeep}</p>
          </div>
          <div class="row tight">
            <Button kind="danger" icon="trash" onClick={() => setAsking(true)}>
              {t.deleteStart}
            </Button>
          </div>
          {isAsking && <DeleteDialog account={account} onClose={() => setAsking(false)} />}
        </>
      )}
    </Group>
  );
}

function DeleteDialog({ account, onClose }: { account: Account; onClose: () => void }) {
  const t = accountTexts().data;
  const c = common();
  const [address, setAddress] = useState("");
  const [password, setPassword] = useState("");
  const [faults, setFaults] = useState<{ address?: string; password?: string }>({});
  const [round, setRound] = useState(0);
  const [isBusy, setBusy] = useState(false);
  const [error, setError] = useState<unknown>(null);
  const element = useFocusWrong(round);
  const refuse = (found: { address?: string; password?: string }) => {
    setFaults(found);
    setRound((before) => before + 1);
  };

  const submit = async (event: Event) => {
    event.preventDefault();
    if (isBusy) return;
    const found: { address?: string; password?: string } = {};
    if (address.trim().toLowerCase() !== account.email.toLowerCase()) found.address = t.wrongAddress;
    if (!password) found.password = t.passwordMissing;
    setError(null);
    if (found.address || found.password) {
      refuse(found);
      return;
    }
    setFaults({});
    setBusy(true);
    try {
      await unwrap(api.DELETE("/v1/account", { body: { password, confirmation: address.trim() } }));
    } catch (failure) {
      setBusy(false);
      if (failure instanceof Problem && failure.status === 403) refuse({ password: t.wrongPassword });
      else setError(failure);
      return;
    }
    await loadSession();
    tellOtherTabs();
    navigate("/");
    toast(t.deleted);
  };

  return (
    <Dialog title={t.deleteDialog} onClose={onClose}>
      <form class="stack" noValidate ref={element} onSubmit={(event) => void submit(event)}>
        <p>{t.deleteKeep}</p>
        <TextField label={t.typeAddress(isolated(account.email))} wrong={faults.address} value={address} autocomplete="off" spellcheck={false} inputMode="email" onInput={(event) => setAddress(event.currentTarget.value)} />
        <TextField type="password" label={t.password} wrong={faults.password} value={password} autocomplete="current-password" onInput={(event) => setPassword(event.currentTarget.value)} />
        <ErrorNotice error={error} />
        <div class="account-actions">
          <Button onClick={onClose}>{c.cancel}</Button>
          <Button kind="danger" type="submit" busy={isBusy}>
            {t.deleteAction}
          </Button>
        </div>
      </form>
    </Dialog>
  );
}
