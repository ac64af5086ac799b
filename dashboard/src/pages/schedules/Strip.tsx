// The last firings of a schedule side by side. A click on one says why it ended as it did.
import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useRef, useState } from "react";
import { api, unwrap } from "../../api/client";
import { absolute, relative, viewerZone } from "../../lib/time";
import { Button } from "../../ui/Button";
import { type Firing, KINDS, kindOf, stripWords, whyOf } from "./health";
import "./Strip.css";

export function Strip({ firings, zone }: { firings: readonly Firing[] | undefined; zone?: string | null }) {
  const [chosen, setChosen] = useState<Firing | null>(null);
  const panel = useRef<HTMLDivElement>(null);
  const list = useRef<HTMLUListElement>(null);
  if (!firings) return <span className="strip strip-loading" role="status" aria-label="Loading the last firings" />;
  if (firings.length === 0) return <span className="muted">not yet</span>;
  const open = (firing: Firing, button: HTMLElement) => {
    setChosen(firing);
    const box = panel.current;
    box?.showPopover?.();
    const at = button.getBoundingClientRect();
    if (!box) return;
    box.style.left = `${Math.max(8, Math.min(at.left, window.innerWidth - box.offsetWidth - 8))}px`;
    const below = at.bottom + 6;
    box.style.top = `${below + 180 > window.innerHeight && at.top > 190 ? at.top - box.offsetHeight - 6 : below}px`;
  };
  const move = (step: number) => {
    const all = [...(list.current?.querySelectorAll<HTMLElement>("button") ?? [])];
    all[all.indexOf(document.activeElement as HTMLElement) + step]?.focus();
  };
  return (
    <>
      <ul
        ref={list}
        className="strip"
        aria-label={stripWords(firings)}
        onKeyDown={(event) => {
          if (event.key === "ArrowRight") move(1);
          if (event.key === "ArrowLeft") move(-1);
        }}
      >
        {firings.map((firing, index) => {
          const kind = KINDS[kindOf(firing)];
          const name = `${kind.word}, ${absolute(firing.at)}`;
          return (
            <li key={`${firing.at}${firing.jobId}`}>
              <button
                type="button"
                className="strip-mark"
                style={{ color: kind.colour }}
                // One stop of the tabulator for the whole strip; the arrow keys move in it.
                tabIndex={index === firings.length - 1 ? 0 : -1}
                aria-label={name}
                title={`${name}\n${whyOf(firing)}`}
                onClick={(event) => open(firing, event.currentTarget)}
              >
                <span aria-hidden="true">{kind.glyph}</span>
              </button>
            </li>
          );
        })}
      </ul>
      <div ref={panel} popover="auto" role="dialog" aria-label="Why" className="popover strip-why">
        {chosen && <Why firing={chosen} zone={zone ?? undefined} onClose={() => panel.current?.hidePopover?.()} />}
      </div>
    </>
  );
}

function Why({ firing, zone, onClose }: { firing: Firing; zone?: string; onClose: () => void }) {
  const kind = KINDS[kindOf(firing)];
  const failed = firing.jobState === "failed" || firing.jobState === "retrying";
  const job = useQuery({
    queryKey: ["job", firing.jobId, "detail"],
    enabled: failed && !!firing.jobId,
    queryFn: async () =>
      (await unwrap(api.GET("/api/jobs/{job_id}/detail", { params: { path: { job_id: firing.jobId ?? "" } } }))).data,
  });
  return (
    <div className="stack strip-told">
      <div className="row spread">
        <strong style={{ color: kind.colour }}>
          <span aria-hidden="true">{kind.glyph}</span> {kind.word}
        </strong>
        <Button small look="quiet" aria-label="Close" onClick={onClose}>
          ✕
        </Button>
      </div>
      <p className="wrap">{whyOf(firing)}</p>
      {failed && job.data?.error && (
        <p className="field-error wrap">
          {job.data.error.type}: {job.data.error.message.slice(0, 500)}
        </p>
      )}
      <p className="muted">
        {relative(firing.at)} · {absolute(firing.at)} {viewerZone}
        {zone && zone !== viewerZone && (
          <>
            <br />
            {absolute(firing.at, zone)} {zone}
          </>
        )}
      </p>
      {firing.jobId && firing.jobState && (
        <Link to="/jobs/$id" params={{ id: firing.jobId }}>
          Open its job
        </Link>
      )}
    </div>
  );
}
