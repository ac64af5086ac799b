// Time series by uPlot: one x-axis for all charts of a page, a shared cursor, and a range chosen by dragging or by keys.
import { type KeyboardEvent, useEffect, useId, useMemo, useRef, useState } from "react";
import uPlot from "uplot";
import { absolute } from "../lib/time";
import { type Marked, moved, placeOf, rangeOf } from "./chartKeys";
import "uplot/dist/uPlot.min.css";
import "./Chart.css";

export type Line = {
  label: string;
  /** A colour token such as "--failed". */
  colour: string;
  values: (number | null)[];
  /** Drawn as bars that stand on each other. */
  bars?: boolean;
  dashed?: boolean;
};

type Props = {
  title: string;
  /** Instants in seconds. */
  at: number[];
  lines: Line[];
  format: (value: number) => string;
  height?: number;
  /** Charts with the same name share their cursor. */
  sync?: string;
  /** Vertical marks, such as the first heartbeat of a new version. */
  marks?: { at: number; label: string }[];
  /** Makes the chart a place where a range is chosen: dragged with the mouse, or marked with the arrow keys. */
  onRange?: (start: number, end: number) => void;
  /** The steps between the lines of the value axis; those of plain numbers by default. */
  steps?: readonly number[];
  /** Takes the chosen range back. */
  onClear?: () => void;
};

export function Chart({ title, at, lines, format, height = 150, sync, steps, marks = [], onRange, onClear }: Props) {
  const place = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | null>(null);
  // The place under the cursor, of this chart or of one that shares it; null without one.
  const [under, setUnder] = useState<number | null>(null);
  const latest = useRef({ onRange, format, marks, onCursor: setUnder });
  latest.current = { onRange, format, marks, onCursor: setUnder };
  const shape = lines.map((line) => `${line.label}|${line.colour}|${line.bars}|${line.dashed}`).join(";");
  const data = useMemo(() => stacked(at, lines), [at, lines]);

  // The chart is made again when its lines or the theme change; new values only move it.
  useEffect(() => {
    const element = place.current;
    if (!element || typeof window.matchMedia !== "function") return;
    const make = () => {
      plot.current?.destroy();
      plot.current = new uPlot(options(element, lines, height, sync, steps, latest), data, element);
    };
    make();
    const resized = new ResizeObserver(() => plot.current?.setSize({ width: element.clientWidth, height }));
    resized.observe(element);
    const themed = new MutationObserver(make);
    themed.observe(document.documentElement, { attributeFilter: ["data-theme"] });
    return () => {
      resized.disconnect();
      themed.disconnect();
      plot.current?.destroy();
      plot.current = null;
    };
  }, [shape, height, sync]);

  useEffect(() => {
    plot.current?.setData(data);
  }, [data]);

  const [marked, setMarked] = useState<Marked | null>(null);
  const keys = useId();
  const drawn = useRef(false);
  useEffect(() => {
    // Without a mark of its own, the keyboard leaves the cursor to the mouse.
    if (marked || drawn.current) show(plot.current, at, marked);
    drawn.current = marked !== null;
  }, [marked, data]);
  const press = (event: KeyboardEvent) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const next = moved(at, marked, event.key, event.shiftKey);
    if (next) setMarked(next);
    else if (event.key === "Enter" && marked) onRange?.(...rangeOf(at, marked));
    else if (event.key === "Escape") {
      setMarked(null);
      onClear?.();
    } else return;
    event.preventDefault();
  };
  const shown = under !== null && under < at.length ? under : null;
  const told = lines.map((line) => `${line.label} ${summary(line, format)}`).join(", ");
  return (
    <figure className="chart">
      <figcaption>
        <h3>{title}</h3>
        <span className="chart-legend">
          <span className="chart-at">
            {shown === null ? "latest" : absolute((at[shown] ?? 0) * 1000, undefined, false)}
          </span>
          {lines.map((line) => (
            <span key={line.label}>
              <i style={{ background: `var(${line.colour})` }} aria-hidden="true" /> {line.label}{" "}
              <b>{shown === null ? summary(line, format) : valueAt(line, shown, format)}</b>
            </span>
          ))}
        </span>
      </figcaption>
      {onRange ? (
        <div
          ref={place}
          className="chart-plot"
          role="slider"
          tabIndex={0}
          aria-label={`${title}: choose a range`}
          aria-describedby={keys}
          aria-valuemin={at[0] ?? 0}
          aria-valuemax={at.at(-1) ?? 0}
          aria-valuenow={marked?.cursor ?? at.at(-1) ?? 0}
          aria-valuetext={marked ? markedWords(at, lines, marked, format) : `latest, ${told}`}
          onKeyDown={press}
          onBlur={() => setMarked(null)}
        />
      ) : (
        <div ref={place} className="chart-plot" role="img" aria-label={`${title}: ${told}`} />
      )}
      {onRange && (
        <p className="chart-keys" id={keys}>
          <kbd>←</kbd> <kbd>→</kbd> move, with <kbd>Shift</kbd> mark a range; <kbd>Enter</kbd> chooses it,{" "}
          <kbd>Esc</kbd> clears it.
        </p>
      )}
    </figure>
  );
}

/** Draw the cursor and the mark of the keyboard, in all charts that share the cursor. */
function show(plot: uPlot | null, at: readonly number[], marked: Marked | null): void {
  if (!plot || at.length === 0) return;
  const height = plot.over.clientHeight;
  if (!marked) {
    plot.setCursor({ left: -10, top: -10 });
    plot.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
    return;
  }
  const edge = (instant: number) => plot.valToPos(Math.min(instant, plot.scales["x"]?.max ?? instant), "x");
  const [start, end] = rangeOf(at, marked);
  plot.setCursor({ left: edge(marked.cursor), top: height / 2 });
  const width = marked.cursor === marked.anchor ? 0 : edge(end) - edge(start);
  plot.setSelect({ left: edge(start), top: 0, width, height }, false);
}

/** What the cursor of the keyboard is at: the instant and the values, or the marked range. */
function markedWords(at: number[], lines: Line[], marked: Marked, format: (value: number) => string): string {
  const words = (seconds: number) => absolute(seconds * 1000, undefined, false);
  const place = placeOf(at, marked.cursor);
  const values = lines.map((line) => `${line.label} ${valueAt(line, place, format)}`).join(", ");
  const [start, end] = rangeOf(at, marked);
  const range = marked.cursor === marked.anchor ? "" : `; ${words(start)} to ${words(end)} is marked`;
  return `${words(at[place] ?? 0)}: ${values}${range}`;
}

function summary(line: Line, format: (value: number) => string): string {
  const last = line.values.findLast((value) => value !== null && value !== undefined);
  return last === undefined || last === null ? "–" : format(last);
}

function valueAt(line: Line, index: number, format: (value: number) => string): string {
  const value = line.values[index];
  return value === undefined || value === null ? "–" : format(value);
}

function css(name: string): string {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim() || "#888";
}

/** The values with bars added up from the last line to the first: the highest bar is drawn first, the others over it. */
function stacked(at: number[], lines: Line[]): uPlot.AlignedData {
  const sums = at.map(() => 0);
  const columns = lines.toReversed().map((line) => {
    if (!line.bars) return line.values;
    return at.map((_, index) => {
      sums[index] = (sums[index] ?? 0) + (line.values[index] ?? 0);
      return sums[index] ?? 0;
    });
  });
  return [at, ...columns.toReversed()] as uPlot.AlignedData;
}

type Latest = {
  current: {
    onRange?: (start: number, end: number) => void;
    format: (value: number) => string;
    marks: { at: number; label: string }[];
    onCursor: (index: number | null) => void;
  };
};

function options(
  element: HTMLElement,
  lines: Line[],
  height: number,
  sync: string | undefined,
  steps: readonly number[] | undefined,
  latest: Latest,
): uPlot.Options {
  const axis = {
    stroke: css("--muted"),
    grid: { stroke: css("--line"), width: 1 },
    ticks: { stroke: css("--line"), width: 1 },
    font: "11px sans-serif",
  };
  const bars = uPlot.paths.bars?.({ size: [0.9, 40], gap: 1 });
  const series = lines.map((line) => ({
    label: line.label,
    stroke: css(line.colour),
    fill: line.bars ? css(line.colour) : undefined,
    width: line.bars ? 0 : 1.5,
    dash: line.dashed ? [4, 3] : undefined,
    paths: line.bars ? bars : undefined,
    points: line.bars ? { show: false } : { show: true, size: 4, fill: css(line.colour), filter: lonely },
  }));
  return {
    width: element.clientWidth || 300,
    height,
    legend: { show: false },
    cursor: {
      drag: { x: true, y: false, setScale: false },
      sync: sync ? { key: sync, setSeries: false } : undefined,
      points: { show: false },
    },
    scales: { x: { time: true }, y: { range: (_plot, _low, high) => [0, high > 0 ? high * 1.08 : 1] } },
    axes: [
      { ...axis, values: (_plot, ticks, _axis, _space, step) => ticks.map((tick) => instant(tick, step)) },
      {
        ...axis,
        ...(steps && { incrs: [...steps] }),
        size: 84,
        values: (_plot, ticks) => ticks.map((tick) => latest.current.format(tick)),
      },
    ],
    series: [{}, ...series],
    hooks: {
      setSelect: [
        (plot) => {
          const { left, width } = plot.select;
          if (width < 4) return;
          const start = plot.posToVal(left, "x");
          const end = plot.posToVal(left + width, "x");
          plot.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
          latest.current.onRange?.(start, end);
        },
      ],
      setCursor: [(plot) => latest.current.onCursor(plot.cursor.idx ?? null)],
      draw: [(plot) => drawMarks(plot, latest.current.marks)],
    },
  };
}

/** The values between two gaps, which no line would show. */
function lonely(plot: uPlot, series: number): number[] {
  const values = plot.data[series] ?? [];
  const there = (index: number) => values[index] !== null && values[index] !== undefined;
  return Array.from(values.keys()).filter((index) => there(index) && !there(index - 1) && !there(index + 1));
}

/** The label of an instant on the axis: the date where a day begins or ticks are days apart, else the time. */
function instant(seconds: number, step: number): string {
  const at = new Date(seconds * 1000);
  const two = (value: number) => String(value).padStart(2, "0");
  const time = `${two(at.getHours())}:${two(at.getMinutes())}${step < 60 ? `:${two(at.getSeconds())}` : ""}`;
  const date = at.toLocaleDateString("en-GB", { day: "numeric", month: "short" });
  return step >= 86_400 || time === "00:00" ? date : time;
}

function drawMarks(plot: uPlot, marks: { at: number; label: string }[]): void {
  const { ctx, bbox } = plot;
  ctx.save();
  ctx.strokeStyle = css("--line-strong");
  ctx.fillStyle = css("--muted");
  ctx.font = `${11 * devicePixelRatio}px sans-serif`;
  ctx.textAlign = "left";
  ctx.textBaseline = "alphabetic";
  ctx.setLineDash([3, 3]);
  for (const mark of marks) {
    const x = plot.valToPos(mark.at, "x", true);
    if (x < bbox.left || x > bbox.left + bbox.width) continue;
    ctx.beginPath();
    ctx.moveTo(x, bbox.top);
    ctx.lineTo(x, bbox.top + bbox.height);
    ctx.stroke();
    ctx.fillText(mark.label.slice(0, 24), x + 4, bbox.top + 12 * devicePixelRatio);
  }
  ctx.restore();
}
