/** The frame around every page: head, foot, who is signed in, and which page the address names. */

import { effect, signal } from "@preact/signals";
import { Component, type ComponentChildren, type ComponentType } from "preact";
import { useEffect, useRef } from "preact/hooks";
import { setUnreachable } from "./api/client";
import { chooseLanguage, language, LANGUAGES, type Language } from "./i18n";
import { common } from "./i18n/common";
import { match, navigate, path } from "./router";
import { loadSession, session, signOut, tellOtherTabs } from "./session";
import { theme, type Theme } from "./theme";
import { Button, LinkButton } from "./ui/button";
import { Icon, type IconName } from "./ui/icon";
import { Menu, MenuItem } from "./ui/menu";
import { Empty, Skeleton } from "./ui/states";
import { toast, Toasts, toastError } from "./ui/toast";

/** What a page is given: the pieces of its path. */
export type PageProps = { params: Record<string, string> };

interface Route {
  pattern: string;
  /** Its module, loaded when the page is first shown. */
  load: () => Promise<{ default: ComponentType<PageProps> }>;
  /** Whether only an account sees it. */
  account?: boolean;
}

const start = () => import("./pages/start");
const sign = () => import("./pages/sign");
const account = () => import("./pages/account");
const admin = () => import("./pages/admin");
const live = () => import("./pages/live");

const ROUTES: Route[] = [
  { pattern: "/", load: start },
  { pattern: "/sign-in", load: sign },
  { pattern: "/sign-up", load: sign },
  { pattern: "/forgot", load: sign },
  { pattern: "/library", load: () => import("./pages/library"), account: true },
  { pattern: "/t/{id}", load: () => import("./pages/transcript"), account: true },
  { pattern: "/live", load: live },
  { pattern: "/captions", load: live },
  { pattern: "/voice", load: () => import("./pages/voice"), account: true },
  { pattern: "/account", load: account, account: true },
  { pattern: "/account/{part}", load: account, account: true },
  { pattern: "/admin", load: admin, account: true },
  { pattern: "/admin/{part}", load: admin, account: true },
  { pattern: "/developers", load: () => import("./pages/developers") },
];

/** Pages that were loaded; a signal, so that one that arrives is shown. */
const pages = signal(new Map<Route, ComponentType<PageProps> | Error>());

function pageOf(route: Route): ComponentType<PageProps> | Error | null {
  const known = pages.value.get(route);
  if (known) return known;
  route.load().then(
    (module) => (pages.value = new Map(pages.value).set(route, module.default)),
    (error: unknown) => (pages.value = new Map(pages.value).set(route, error instanceof Error ? error : new Error(String(error)))),
  );
  return null;
}

effect(() => setUnreachable(common().unreachable));
void loadSession();

export function App() {
  const t = common();
  const main = useRef<HTMLElement>(null);
  const first = useRef(true);
  // A new page begins at its content, for those who hear it, too.
  useEffect(() => {
    if (first.current) first.current = false;
    else main.current?.focus({ preventScroll: true });
  }, [path.value]);
  return (
    <div class={`frame${path.value === "/captions" ? " bare" : ""}`}>
      <a class="skip" href="#content" onClick={(event) => { event.preventDefault(); main.current?.focus(); }}>
        {t.skip}
      </a>
      {path.value === "/captions" ? <div /> : <Head />}
      <main id="content" tabIndex={-1} ref={main} class="page-outer">
        <Boundary key={path.value}>
          <Page />
        </Boundary>
      </main>
      {path.value === "/captions" ? <div /> : <Foot />}
      <Toasts />
    </div>
  );
}

function Page() {
  const t = common();
  for (const route of ROUTES) {
    const params = match(route.pattern, path.value);
    if (!params) continue;
    if (route.account) {
      if (!session.value) return <Waiting />;
      if (!session.value.signed_in) return <NeedsAccount />;
    }
    const Found = pageOf(route);
    if (!Found) return <Waiting />;
    if (Found instanceof Error) throw Found;
    return <Found params={params} />;
  }
  return (
    <div class="page">
      <Title words={t.notFoundTitle} />
      <Empty icon="search" title={t.notFoundTitle} isPage>
        <p>{t.notFoundText}</p>
        <LinkButton kind="primary" href="/">
          {t.toStart}
        </LinkButton>
      </Empty>
    </div>
  );
}

function Waiting() {
  return (
    <div class="page">
      <Skeleton lines={4} />
    </div>
  );
}

function NeedsAccount() {
  const t = common();
  const next = encodeURIComponent(location.pathname + location.search);
  return (
    <div class="page">
      <Title words={t.needsAccountTitle} />
      <Empty icon="lock" title={t.needsAccountTitle} isPage>
        <p>{t.needsAccountText}</p>
        <div class="row">
          <LinkButton kind="primary" href={`/sign-in?next=${next}`}>
            {t.signIn}
          </LinkButton>
          {session.value?.sign_up && <LinkButton href={`/sign-up?next=${next}`}>{t.signUp}</LinkButton>}
        </div>
      </Empty>
    </div>
  );
}

/** The title of the document. */
export function Title({ words }: { words: string }) {
  useEffect(() => {
    document.title = words ? `${words} · Hark` : "Hark";
  }, [words]);
  return null;
}

function Head() {
  const t = common();
  const who = session.value?.account;
  const links: { href: string; label: string; icon: IconName; under?: RegExp }[] = [
    { href: "/", label: t.start, icon: "upload" },
    { href: "/live", label: t.live, icon: "live" },
    ...(who
      ? ([
          { href: "/library", label: t.library, icon: "library", under: /^\/t\// },
          { href: "/voice", label: t.voice, icon: "voice" },
        ] as const)
      : []),
    ...(who && isAdmin(who) ? ([{ href: "/admin", label: t.admin, icon: "admin", under: /^\/admin\// }] as const) : []),
  ];
  // On a phone the menu is wider than the window: where one is stays in sight.
  const menu = useRef<HTMLElement>(null);
  useEffect(() => {
    const current = menu.current?.querySelector<HTMLElement>("[aria-current]");
    if (menu.current && current) menu.current.scrollLeft = current.offsetLeft - (menu.current.clientWidth - current.offsetWidth) / 2;
  }, [path.value, who?.id]);
  return (
    <header class="top">
      <div class="top-in">
        <a class="brand" href="/">
          <Mark />
          Hark
        </a>
        <nav aria-label={t.mainMenu} ref={menu}>
          {links.map((link) => (
            <a key={link.href} href={link.href} aria-current={path.value === link.href || link.under?.test(path.value) ? "page" : undefined}>
              {link.label}
            </a>
          ))}
        </nav>
        <span class="grow-phone" />
        <Settings />
        {who ? (
          <Menu
            label={t.account}
            trigger={(attributes) => (
              <button type="button" class="button plain icon" aria-label={t.accountOf(who.email)} title={who.email} {...attributes}>
                <Icon name="account" />
              </button>
            )}
          >
            <MenuItem href="/account">{t.account}</MenuItem>
            <MenuItem href="/developers">{t.developers}</MenuItem>
            <MenuItem onClick={() => void leave()}>{t.signOut}</MenuItem>
          </Menu>
        ) : (
          session.value && (
            <LinkButton small kind="primary" href="/sign-in">
              {t.signIn}
            </LinkButton>
          )
        )}
      </div>
    </header>
  );
}

/** Whether an account manages others. */
export function isAdmin(account: { is_admin?: boolean }): boolean {
  return account.is_admin === true;
}

async function leave(): Promise<void> {
  try {
    await signOut();
    tellOtherTabs();
    navigate("/");
    toast(common().signedOut);
  } catch (error) {
    toastError(error);
  }
}

function Settings() {
  const t = common();
  const themes: { id: Theme; label: string; icon: IconName }[] = [
    { id: "system", label: t.themeSystem, icon: "screen" },
    { id: "light", label: t.themeLight, icon: "sun" },
    { id: "dark", label: t.themeDark, icon: "moon" },
  ];
  return (
    <>
      <Menu
        label={t.theme}
        trigger={(attributes) => (
          <button type="button" class="button plain icon" aria-label={t.theme} title={t.theme} {...attributes}>
            <Icon name={theme.value === "dark" ? "moon" : "sun"} />
          </button>
        )}
      >
        {themes.map((choice) => (
          <MenuItem key={choice.id} checked={theme.value === choice.id} onClick={() => (theme.value = choice.id)}>
            <Icon name={choice.icon} />
            <span class="grow">{choice.label}</span>
            {theme.value === choice.id && <Icon name="check" />}
          </MenuItem>
        ))}
      </Menu>
      <Menu
        label={t.language}
        trigger={(attributes) => (
          <button type="button" class="button plain icon" aria-label={t.language} title={t.language} {...attributes}>
            <Icon name="globe" />
          </button>
        )}
      >
        {(Object.entries(LANGUAGES) as [Language, string][]).map(([code, name]) => (
          <MenuItem key={code} checked={language.value === code} onClick={() => chooseLanguage(code)}>
            <span class="grow" lang={code}>
              {name}
            </span>
            {language.value === code && <Icon name="check" />}
          </MenuItem>
        ))}
      </Menu>
    </>
  );
}

function Foot() {
  const t = common();
  return (
    <footer class="foot">
      <div class="foot-in">
        <span>{t.ownMachine}</span>
        <span class="row">
          <a href="/developers">{t.developers}</a>
          <a href="/docs">{t.apiDocs}</a>
        </span>
      </div>
    </footer>
  );
}

function Mark() {
  return (
    <svg viewBox="0 0 32 32" aria-hidden="true" focusable="false">
      <rect width="32" height="32" rx="8" fill="#1f5f5b" />
      <path d="M7 13.5v5M11.5 9v14M16 5.5v21M20.5 10.5v11M25 13.5v5" stroke="#fff" stroke-width="2.6" stroke-linecap="round" fill="none" />
    </svg>
  );
}

/** A page that fails takes nothing else with it. */
class Boundary extends Component<{ children: ComponentChildren }, { error: unknown }> {
  override state = { error: null as unknown };

  static override getDerivedStateFromError(error: unknown) {
    return { error };
  }

  override componentDidCatch(error: unknown): void {
    console.error(error);
  }

  override render() {
    if (!this.state.error) return this.props.children;
    const t = common();
    return (
      <div class="page">
        <Empty icon="warning" title={t.brokenTitle} isPage>
          <p>{t.brokenText}</p>
          <Button kind="primary" onClick={() => location.reload()}>
            {t.reload}
          </Button>
        </Empty>
      </div>
    );
  }
}
