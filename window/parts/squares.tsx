/** Many nodes as squares in groups: a listbox of which one square has the focus. */
import { useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import {
  counted,
  drawn,
  type Group,
  indexAt,
  layout,
  type Mark,
  neighbour,
  outline,
  type Placed,
  type Point,
  within,
} from "../state/squares";
import { bdi } from "./text";
import { visible } from "./words";

/** The pointer has to be moved this far until a press is a frame. */
const STILL = 4;
const HEIGHT = 400;
const KEYS = ["ArrowLeft", "ArrowRight", "ArrowUp", "ArrowDown", "Home", "End"];

/** A shape with its colour, beside a word. */
export const Sign = ({ mark }: { mark: Mark }) => (
  <svg class={`square-sign ${mark.tone}`} viewBox="0 0 10 10" aria-hidden="true">
    <path fill-rule="evenodd" d={outline(mark.shape, 0, 0, 10)} />
  </svg>
);

/** @param ids to add, or to take away */
function changed(selected: Set<string>, ids: string[], on: boolean): Set<string> {
  const next = new Set(selected);
  for (const id of ids) {
    if (on) next.add(id);
    else next.delete(id);
  }
  return next;
}

interface Frame {
  /** the pressed square */
  id: string;
  from: Point;
  to: Point;
  /** it selects what it touches; else it clears that */
  on: boolean;
  moved: boolean;
}

/**
 * @param props `onPress`: Enter on a square, and a click where squares cannot be selected; `about`: more
 *   words for a square
 */
export function Squares({
  groups,
  label,
  selected,
  onSelect,
  onPress,
  about = () => "",
}: {
  groups: Group[];
  label: string;
  selected: Set<string>;
  onSelect?: (ids: Set<string>) => void;
  onPress: (id: string) => void;
  about?: (id: string) => string;
}) {
  const box = useRef<HTMLDivElement>(null);
  const width = useWidth(box);
  const [focus, setFocus] = useState({ id: "", here: false });
  const [over, setOver] = useState(-1);
  const [frame, setFrame] = useState<Frame | null>(null);
  const newest = useMemo(() => layout(width ? groups : [], width, HEIGHT), [groups, width]);
  const laid = useRef(newest);
  // What is under a pointer stays there while it is pressed.
  if (!frame) laid.current = newest;
  const all = laid.current;
  const marks = useMemo(() => drawn(all), [all]);
  const sums = useMemo(() => sumsOf(groups), [groups]);
  const told = useMemo(() => sumsOf(all.titles), [all]);
  const { placed, cell } = all;
  const at = Math.max(
    0,
    useMemo(() => placed.findIndex(({ id }) => id === focus.id), [all, focus.id]),
  );
  const ids = useMemo(() => (frame?.moved ? within(all, frame.from, frame.to) : []), [all, frame]);
  const shown = frame?.moved ? changed(selected, ids, frame.on) : selected;
  const frames = useMemo(() => framesOf(placed, shown, cell), [all, shown, ids]);
  const point = (event: PointerEvent): Point => {
    const { left, top } = box.current!.getBoundingClientRect();
    return { x: event.clientX - left, y: event.clientY - top };
  };
  const press = (id: string) =>
    onSelect ? onSelect(changed(selected, [id], !selected.has(id))) : onPress(id);
  const begin = (event: PointerEvent) => {
    if (event.button) return;
    const from = point(event);
    const square = placed[indexAt(all, from.x, from.y)];
    setFrame({ id: square?.id ?? "", from, to: from, on: !square || !selected.has(square.id), moved: false });
    // A finger scrolls the page instead.
    if (onSelect && event.pointerType === "mouse") box.current!.setPointerCapture(event.pointerId);
  };
  const move = (event: PointerEvent) => {
    const to = point(event);
    setOver(indexAt(all, to.x, to.y));
    if (!frame) return;
    const far = Math.hypot(to.x - frame.from.x, to.y - frame.from.y) > STILL;
    const draws = frame.moved || (!!onSelect && event.pointerType === "mouse" && far);
    setFrame({ ...frame, to, moved: draws });
  };
  const end = () => {
    if (!frame) return;
    const { id, moved } = frame;
    setFrame(null);
    if (moved) return onSelect?.(shown);
    if (!id) return;
    setFocus({ ...focus, id });
    press(id);
  };
  const keys = (event: KeyboardEvent) => {
    const square = placed[at];
    if (!square || event.altKey) return;
    const { key } = event;
    if ((event.ctrlKey || event.metaKey) && key === "a" && onSelect)
      onSelect(new Set(placed.map(({ id }) => id)));
    else if (event.ctrlKey || event.metaKey) return;
    else if (KEYS.includes(key)) {
      const next = placed[neighbour(all, at, key)] ?? square;
      if (event.shiftKey) onSelect?.(changed(selected, [square.id, next.id], true));
      setFocus({ ...focus, id: next.id });
    } else if (key === " ") press(square.id);
    else if (key === "Enter") onPress(square.id);
    else return;
    event.preventDefault();
    event.stopPropagation();
  };
  const active = placed[at];
  const named = frame?.moved ? undefined : (placed[over] ?? (focus.here ? active : undefined));
  const words = (square: Placed) => [square.mark.word, about(square.id)].filter(Boolean).join(" · ");
  return (
    <div class="squares-frame">
      <div
        class="squares"
        role="listbox"
        aria-label={label}
        aria-multiselectable={onSelect ? "true" : undefined}
        aria-activedescendant={active && `square-${active.id}`}
        tabindex={0}
        ref={box}
        style={{ height: `${all.height}px` }}
        onKeyDown={keys}
        onFocus={() => setFocus({ ...focus, here: true })}
        onBlur={() => setFocus({ ...focus, here: false })}
        onPointerDown={begin}
        onPointerMove={move}
        onPointerUp={end}
        onPointerCancel={() => setFrame(null)}
        onPointerLeave={() => (setOver(-1), setFrame(null))}
      >
        <svg aria-hidden="true" width={width} height={all.height}>
          {marks.map((mark) => (
            <path key={mark.word} class={mark.tone} fill-rule="evenodd" d={mark.path} />
          ))}
          <path class="chosen" d={frames} />
          {named && <rect class="named" x={named.x - 1} y={named.y - 1} width={cell} height={cell} />}
          {frame?.moved && <rect class="drawn" {...rectangle(frame)} />}
        </svg>
        {active && (
          <div
            key={active.id}
            class="unseen"
            role="option"
            id={`square-${active.id}`}
            aria-selected={selected.has(active.id)}
            aria-posinset={at + 1}
            aria-setsize={placed.length}
          >
            {visible(active.name)}, {visible(active.group)}, {visible(words(active))}
          </div>
        )}
      </div>
      {all.titles.map(({ title, squares, x, y, width: wide }, place) => {
        const inside = squares.map(({ id }) => id);
        const shared = {
          class: "squares-title",
          title: `${visible(title)}: ${told[place]}`,
          style: { left: `${x}px`, top: `${y}px`, width: `${wide}px` },
          children: [bdi(title), " ", <span>{squares.length}</span>],
        };
        return onSelect ? (
          <button
            key={title}
            type="button"
            // Of many titles Tab reaches that of the square with the focus.
            tabindex={title === active?.group ? 0 : -1}
            onClick={() => onSelect(changed(selected, inside, !inside.every((id) => selected.has(id))))}
            {...shared}
          />
        ) : (
          <span key={title} aria-hidden="true" {...shared} />
        );
      })}
      {named && (
        <div class="square-name" aria-hidden="true" style={beside(named, cell, width)}>
          <b>{bdi(named.name)}</b> {bdi(words(named))}
          {onSelect && over < 0 && (
            // A finger selects a square, and has no Enter; the focus stays with the squares.
            <button
              type="button"
              tabindex={-1}
              onMouseDown={(event) => event.preventDefault()}
              onClick={() => onPress(named.id)}
            >
              Open
            </button>
          )}
        </div>
      )}
      <ul class="unseen" aria-label={`${label}, counted`}>
        {groups.map(({ title }, place) => (
          <li>
            {visible(title)}: {sums[place]}
          </li>
        ))}
      </ul>
    </div>
  );
}

const sumsOf = (groups: Group[]) => groups.map(({ squares }) => counted(squares) || "none");

/** A frame around each selected square. */
const framesOf = (placed: Placed[], selected: Set<string>, cell: number) =>
  selected.size
    ? placed
        .filter(({ id }) => selected.has(id))
        .map(({ x, y }) => `M${x - 0.5} ${y - 0.5}h${cell - 1}v${cell - 1}h${1 - cell}z`)
        .join("")
    : "";

const rectangle = ({ from, to }: Frame) => ({
  x: Math.min(from.x, to.x),
  y: Math.min(from.y, to.y),
  width: Math.abs(from.x - to.x),
  height: Math.abs(from.y - to.y),
});

/** Below the square, and on the side that has more room. */
const beside = ({ x, y }: Placed, cell: number, width: number) => ({
  top: `${y + cell + 4}px`,
  ...(x < width / 2 ? { left: `${x}px` } : { right: `${width - x - cell}px` }),
});

function useWidth(box: { current: HTMLElement | null }) {
  const [width, setWidth] = useState(0);
  useLayoutEffect(() => {
    const element = box.current;
    if (!element) return undefined;
    const measure = () => setWidth(Math.floor(element.clientWidth));
    measure();
    const observer = new ResizeObserver(measure);
    observer.observe(element);
    return () => observer.disconnect();
  }, []);
  return width;
}
