// The life of a job as a drawing, with the same in words below it.
import { duration } from "../../lib/time";
import { Moment, useNow } from "../../ui/Time";
import { bars, isOpen, type Span, tint, words } from "./life";
import type { Detail } from "./job";

const NARROWEST = 46;

export function Life({ job }: { job: Detail }) {
  const now = useNow(1000);
  const spans = job.timeline;
  if (spans.length === 0) return <p className="muted">Another program stored this job without its times.</p>;
  const drawn = bars(spans, now);
  const label = drawn.map((bar) => `${words(bar.span, isOpen(bar.span, now))}, ${duration(bar.lasted)}`).join("; ");
  return (
    <>
      <div className="life-scroll" role="region" aria-label="The life of this job, drawn" tabIndex={0}>
        <svg
          className="life"
          width="100%"
          height="56"
          role="img"
          aria-label={label}
          style={{ minWidth: `${drawn.length * NARROWEST}px` }}
        >
          {drawn.map((bar, index) => (
            <g key={index}>
              <title>{`${words(bar.span, isOpen(bar.span, now))}: ${duration(bar.lasted)}`}</title>
              <rect
                x={`${bar.x}%`}
                y={bar.span.kind === "running" ? 20 : 29}
                width={`${Math.max(0.3, bar.width - 0.25)}%`}
                height={bar.span.kind === "running" ? 24 : 6}
                rx="3"
                fill={`var(${tint(bar.span)})`}
                opacity={bar.span.kind === "running" ? 1 : 0.45}
              />
              {bar.compressed && (
                <text x={`${bar.x + bar.width / 2}%`} y="36" textAnchor="middle" className="life-break">
                  {"//"}
                </text>
              )}
              <text x={`${bar.x}%`} dx="2" y="13" className="life-time">
                {duration(bar.lasted)}
              </text>
            </g>
          ))}
        </svg>
      </div>
      <Spans spans={spans} now={now} />
    </>
  );
}

function Spans({ spans, now }: { spans: readonly Span[]; now: number }) {
  return (
    <details className="life-words" open={spans.length <= 6}>
      <summary>In words</summary>
      <ol>
        {bars(spans, now).map(({ span, lasted }, index) => (
          <li key={index} className="life-word">
            <i style={{ background: `var(${tint(span)})` }} aria-hidden="true" />
            <span className="wrap">
              {words(span, isOpen(span, now))}
              {span.note && <span className="muted"> – {span.note}</span>}
            </span>
            <span className="right">{duration(lasted)}</span>
            <span className="muted minor">
              <Moment at={span.start} />
            </span>
          </li>
        ))}
      </ol>
    </details>
  );
}
