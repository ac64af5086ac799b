import "./Chart.css";

type Props = {
  values: readonly number[];
  label: string;
  colour?: string;
  over?: readonly number[];
  overColour?: string;
  width?: number;
  height?: number;
};

/** Small bars without axes; `over` is drawn in its own colour at the foot of each bar, such as failures. */
export function Sparkline({
  values,
  label,
  colour = "--line-strong",
  over,
  overColour = "--failed",
  width = 96,
  height = 22,
}: Props) {
  const top = Math.max(1, ...values);
  const step = width / Math.max(1, values.length);
  const bar = (value: number) => (value > 0 ? Math.max(1, (value / top) * height) : 0);
  return (
    <svg
      className="sparkline"
      width={width}
      height={height}
      viewBox={`0 0 ${width} ${height}`}
      role="img"
      aria-label={label}
    >
      {values.map((value, index) => (
        <rect
          key={index}
          x={index * step}
          y={height - bar(value)}
          width={Math.max(1, step - 1)}
          height={bar(value)}
          fill={`var(${colour})`}
        />
      ))}
      {over?.map((value, index) => (
        <rect
          key={index}
          x={index * step}
          y={height - bar(value)}
          width={Math.max(1, step - 1)}
          height={bar(value)}
          fill={`var(${overColour})`}
        />
      ))}
    </svg>
  );
}
