// The frame of every page: navigation, what is live, the theme, the caller, the palette, and the help.
import { Link, Outlet, useNavigate, useRouterState } from "@tanstack/react-router";
import { useEffect, useRef, useState } from "react";
import { useLogOut, useRole, useSession } from "../api/session";
import { serverNow } from "../lib/time";
import { useLiveStatus, usePause } from "../live/live";
import { Button } from "../ui/Button";
import { Menu } from "../ui/Menu";
import { Boundary } from "../ui/Panel";
import { Duration } from "../ui/Time";
import { Help } from "./Help";
import { useShortcuts } from "./keys";
import { PAGES } from "./nav";
import { Palette } from "./Palette";
import { chooseTheme, useTheme } from "./theme";
import "./Shell.css";

export function usePages() {
  const role = useRole();
  return PAGES.filter((page) => (!page.role || role.can(page.role)) && (!page.everything || role.everything));
}

export function Shell() {
  const pages = usePages();
  const navigate = useNavigate();
  const [palette, setPalette] = useState(false);
  const [help, setHelp] = useState(false);
  const pause = usePause();
  const path = useRouterState({ select: (state) => state.location.pathname });
  // The page that is shown. The address is ahead of it while the next page loads: a boundary with its key would throw
  // the page away and build it again, with all its requests, only to leave it.
  const shown = useRouterState({ select: (state) => state.matches.at(-1)?.id });
  const main = useRef<HTMLElement>(null);
  useEffect(() => {
    const open = (event: KeyboardEvent) => {
      if ((event.metaKey || event.ctrlKey) && event.key.toLowerCase() === "k") {
        event.preventDefault();
        setPalette(true);
      }
    };
    window.addEventListener("keydown", open);
    return () => window.removeEventListener("keydown", open);
  }, []);
  const nav = useRef<HTMLElement>(null);
  // On a phone the navigation is a line that scrolls: the page that is open must be seen in it.
  useEffect(() => {
    const line = nav.current;
    const current = line?.querySelector<HTMLElement>("[aria-current=page]");
    if (line && current) line.scrollLeft = current.offsetLeft - (line.clientWidth - current.offsetWidth) / 2;
  }, [path, pages.length]);
  useShortcuts([
    ...pages.map((page) => ({ keys: `g ${page.key}`, what: page.title, run: () => void navigate({ to: page.path }) })),
    { keys: "?", what: "This list", run: () => setHelp(true) },
    { keys: "p", what: "Pause or resume live updates", run: () => pause.setPaused(!pause.paused) },
  ]);
  return (
    <div className="shell">
      <a className="shell-skip" href="#main" onClick={() => main.current?.focus()}>
        Skip to the content
      </a>
      <header className="shell-head">
        <Link to="/" className="shell-brand">
          <Mark /> Mainspring
        </Link>
        <Button small onClick={() => setPalette(true)} className="shell-palette">
          Go to or find … <kbd>{navigator.platform?.startsWith("Mac") ? "⌘" : "Ctrl "}K</kbd>
        </Button>
        <div className="row shell-tools">
          <LiveButton />
          <ThemeMenu />
          <Button small look="quiet" aria-label="Keyboard shortcuts and help" onClick={() => setHelp(true)}>
            ?
          </Button>
          <Caller />
        </div>
      </header>
      <nav className="shell-nav" aria-label="Pages" ref={nav}>
        {pages.map((page) => (
          <Link
            key={page.path}
            to={page.path}
            activeOptions={{ exact: page.path === "/", includeSearch: false }}
            className="shell-link"
            activeProps={{ "aria-current": "page" }}
          >
            {page.title}
          </Link>
        ))}
      </nav>
      <main className="shell-main" id="main" ref={main} tabIndex={-1}>
        <Boundary key={shown}>
          <Outlet />
        </Boundary>
      </main>
      {palette && <Palette onClose={() => setPalette(false)} />}
      {help && <Help onClose={() => setHelp(false)} />}
    </div>
  );
}

function Mark() {
  return (
    <svg width="18" height="18" viewBox="0 0 32 32" aria-hidden="true">
      <path
        d="M16 16a2 2 0 1 1 2 2 4.500 4.500 0 1 1 2.500-7.500A7.500 7.500 0 1 1 9.500 18.500 9.500 9.500 0 0 1 20 7"
        fill="none"
        stroke="var(--accent)"
        strokeWidth="3"
        strokeLinecap="round"
      />
    </svg>
  );
}

const WORDS = {
  live: "Live",
  connecting: "Connecting",
  lost: "Disconnected",
  ended: "Ended",
  unsupported: "Not live",
} as const;

/** Whether the page is live, and a button that stops it from moving. */
function LiveButton() {
  const status = useLiveStatus();
  const { paused, setPaused, pausedAt } = usePause();
  const lostAt = useLostAt(status);
  const tone = paused ? "paused" : lostAt === null ? status : "lost";
  return (
    <Button
      small
      look="quiet"
      aria-pressed={paused}
      onClick={() => setPaused(!paused)}
      title="Pause or resume live updates (p)"
    >
      <span className={`shell-dot shell-dot-${tone}`} aria-hidden="true" />
      {paused ? (
        <span>
          Paused, <Duration since={new Date(pausedAt ?? 0).toISOString()} /> old
        </span>
      ) : lostAt !== null ? (
        <span>
          {WORDS.lost}, <Duration since={new Date(lostAt).toISOString()} /> old
        </span>
      ) : (
        WORDS[status]
      )}
    </Button>
  );
}

/** Since when the service is not reached: what is shown is as old as that. */
function useLostAt(status: keyof typeof WORDS): number | null {
  const [lostAt, setLostAt] = useState<number | null>(null);
  useEffect(() => {
    if (status === "lost") setLostAt((before) => before ?? serverNow());
    else if (status !== "connecting") setLostAt(null);
  }, [status]);
  return lostAt;
}

function ThemeMenu() {
  const theme = useTheme();
  return (
    <Menu
      small
      look="quiet"
      label="◐"
      name={`Theme: ${theme}`}
      items={[
        { label: "As the system", onSelect: () => chooseTheme("system") },
        { label: "Light", onSelect: () => chooseTheme("light") },
        { label: "Dark", onSelect: () => chooseTheme("dark") },
      ]}
    />
  );
}

/** The caller and its role; a session can log out. */
function Caller() {
  const session = useSession();
  const logOut = useLogOut();
  const name = session.way === "local" ? "this machine" : (session.name ?? session.actor);
  if (session.way !== "session")
    return (
      <span
        className="shell-caller"
        title="Until the first API key exists, this service answers this machine without one."
      >
        {name} · {session.role}
      </span>
    );
  return (
    <Menu
      small
      look="quiet"
      label={`${name} · ${session.role}`}
      items={[{ label: "Log out", onSelect: () => void logOut() }]}
    />
  );
}
