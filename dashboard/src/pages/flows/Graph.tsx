// The graph of a flow: boxes over the links of an SVG, in layers. It scrolls, zooms, and is walked by the arrow keys.
import { type KeyboardEvent, type PointerEvent, useEffect, useId, useMemo, useRef, useState } from "react";
import { plural } from "../../lib/text";
import { Button } from "../../ui/Button";
import { colour, glyph } from "../../ui/states";
import { CountBar } from "./CountBar";
import { type Box, boxState, countWords, type Drawn, endedWords, total, waitWords } from "./graph";
import { layOut, neighbour, NODE, pathOf } from "./layout";

const EDGE = 14;
const SMALLEST = 0.4;

type Props = {
  shown: Drawn;
  selected: string | null;
  onSelect: (key: string | null) => void;
  onFold: (name: string) => void;
};

export function Graph({ shown, selected, onSelect, onFold }: Props) {
  const scroll = useRef<HTMLDivElement>(null);
  const arrow = useId();
  const [width, setWidth] = useState(0);
  const [chosen, setZoom] = useState<number | null>(null);
  const [current, setCurrent] = useState<string | null>(null);
  const shape = JSON.stringify([shown.boxes.map((box) => box.key), shown.lines.map((line) => [line.from, line.to])]);
  const laid = useMemo(
    () =>
      layOut(
        shown.boxes.map((box) => box.key),
        shown.lines,
      ),
    [shape],
  );
  useEffect(() => {
    const element = scroll.current;
    if (!element || typeof ResizeObserver === "undefined") return;
    const resized = new ResizeObserver(() => setWidth(element.clientWidth));
    resized.observe(element);
    return () => resized.disconnect();
  }, []);
  const size = { width: laid.width + 2 * EDGE, height: laid.height + 2 * EDGE };
  const fit = width ? Math.min(1, Math.max(0.8, width / size.width)) : 1;
  const zoom = chosen ?? fit;
  const first = current !== null && laid.places.has(current) ? current : (shown.boxes[0]?.key ?? null);
  const walk = (event: KeyboardEvent) => {
    const key = (event.target as HTMLElement).dataset["key"];
    if (key === undefined || !event.key.startsWith("Arrow")) return;
    const next = neighbour(laid.places, key, event.key);
    if (next === null) return;
    event.preventDefault();
    setCurrent(next);
    for (const button of scroll.current?.querySelectorAll<HTMLElement>("[data-key]") ?? [])
      if (button.dataset["key"] === next) button.focus();
  };
  return (
    <>
      <div className="row graph-tools">
        <Button small aria-label="Smaller" onClick={() => setZoom(Math.max(SMALLEST, zoom / 1.25))}>
          −
        </Button>
        <Button small aria-label="Larger" onClick={() => setZoom(Math.min(2, zoom * 1.25))}>
          +
        </Button>
        <Button small onClick={() => setZoom(null)}>
          Fit
        </Button>
        <span className="muted graph-hint">
          <i className="graph-key" aria-hidden="true" /> what a step waits for now
        </span>
      </div>
      <div
        ref={scroll}
        className="graph-scroll"
        role="region"
        aria-label={`Graph of ${plural(shown.boxes.length, "node")}. Arrow keys move between nodes; the table shows the same data.`}
        tabIndex={0}
        onKeyDown={walk}
        onPointerDown={(event) => drag(event, scroll.current)}
      >
        <div className="graph-room" style={{ width: size.width * zoom, height: size.height * zoom }}>
          <div className="graph" style={{ ...size, transform: `scale(${zoom})` }}>
            <svg className="graph-lines" width={size.width} height={size.height} aria-hidden="true">
              <defs>
                <marker id={arrow} viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">
                  <path d="M0 0L8 4L0 8Z" fill="context-stroke" />
                </marker>
              </defs>
              <g transform={`translate(${EDGE} ${EDGE})`}>
                {laid.routes.map((route) => {
                  const line = shown.lines.find((one) => one.from === route.from && one.to === route.to);
                  const end = route.points[route.points.length - 1];
                  return (
                    <g key={`${route.from}\n${route.to}`} className={line?.holds ? "graph-line-holds" : "graph-line"}>
                      <path d={pathOf(route.points)} markerEnd={`url(#${arrow})`} />
                      {line?.words && end && (
                        <text x={end.x - 8} y={end.y - 6} textAnchor="end">
                          {line.words}
                        </text>
                      )}
                    </g>
                  );
                })}
              </g>
            </svg>
            {shown.boxes.map((box) => {
              const place = laid.places.get(box.key);
              if (!place) return null;
              const at = { left: place.x + EDGE, top: place.y + EDGE, width: NODE.width, height: NODE.height };
              return (
                <div key={box.key} className="graph-place" style={at}>
                  <BoxButton
                    box={box}
                    waits={waitWords(box, shown.lines)}
                    pressed={selected === box.key}
                    tabbed={first === box.key}
                    onFocus={() => setCurrent(box.key)}
                    onSelect={() => onSelect(selected === box.key ? null : box.key)}
                  />
                  {box.below > 0 && box.name !== null && (
                    <button
                      type="button"
                      className="graph-fold"
                      aria-expanded={!box.folded}
                      aria-label={`${box.folded ? "Unfold" : "Fold"} ${plural(box.below, "node")} below ${box.title}`}
                      onClick={() => onFold(box.name as string)}
                    >
                      {box.folded ? `+${box.below}` : "−"}
                    </button>
                  )}
                </div>
              );
            })}
          </div>
        </div>
      </div>
    </>
  );
}

type ButtonProps = {
  box: Box;
  waits: string;
  pressed: boolean;
  tabbed: boolean;
  onFocus: () => void;
  onSelect: () => void;
};

function BoxButton({ box, waits, pressed, tabbed, onFocus, onSelect }: ButtonProps) {
  const state = boxState(box);
  const shown = state === "skipped" ? "cancelled" : state;
  const jobs = total(box.counts);
  const more = [jobs ? countWords(box.counts, box.atLeast) : "", waits].filter(Boolean).join(". ");
  return (
    <button
      type="button"
      className={`graph-box ${box.state === null && jobs === 0 ? "graph-box-absent" : ""} ${box.map ? "graph-box-map" : ""}`}
      style={{ borderLeftColor: colour(shown) }}
      data-key={box.key}
      aria-pressed={pressed}
      tabIndex={tabbed ? 0 : -1}
      title={[box.title, state, more].filter(Boolean).join(". ")}
      onFocus={onFocus}
      onClick={onSelect}
    >
      <span className="graph-title">
        <span aria-hidden="true" style={{ color: colour(shown) }}>
          {state === "not stored yet" ? "·" : glyph(shown)}
        </span>{" "}
        {box.title || "(no name)"}
      </span>
      {jobs > 0 ? (
        <span className="graph-counts" aria-hidden="true">
          <CountBar counts={box.counts} atLeast={box.atLeast} />
          <span className="muted">{endedWords(box.counts, box.atLeast).replace(" ended", "")}</span>
        </span>
      ) : (
        <span className="muted graph-under">
          {state}
          {box.job ? ` · ${box.job}` : ""}
        </span>
      )}
      <span className="visually-hidden">
        {jobs > 0 && `. ${state}`}
        {more && `. ${more}`}
      </span>
    </button>
  );
}

/** Pan by dragging the space between the boxes. */
function drag(event: PointerEvent, element: HTMLElement | null): void {
  if (!element || event.button !== 0 || event.pointerType === "touch") return;
  if ((event.target as HTMLElement).closest("button")) return;
  const from = { x: event.clientX + element.scrollLeft, y: event.clientY + element.scrollTop };
  const move = (moved: globalThis.PointerEvent) => {
    element.scrollLeft = from.x - moved.clientX;
    element.scrollTop = from.y - moved.clientY;
  };
  const stop = () => {
    window.removeEventListener("pointermove", move);
    window.removeEventListener("pointerup", stop);
    window.removeEventListener("pointercancel", stop);
  };
  window.addEventListener("pointermove", move);
  window.addEventListener("pointerup", stop);
  window.addEventListener("pointercancel", stop);
}
