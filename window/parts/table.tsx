/** A table that draws only the rows on the screen. */
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { prefs, small } from "../state/settings";
import { useFade } from "./fade";
import { visible } from "./words";

/** Heights of a row and of a card, as the style sheet has them. */
const rowHeight = () => (small.value ? 56 : 28);
const BEYOND = 8;
const PLAIN_PAGE = 500;

export interface Column {
  key: string;
  title: string;
  cell: (row: any) => any;
  width?: string;
  /** shown on wide screens only */
  wide?: boolean;
}

export function Table(props: {
  rows: any[];
  columns: Column[];
  id: (row: any) => string;
  label: string;
  onOpen: (row: any) => void;
  onCopy?: (row: any) => void;
  selected?: Set<string>;
  onSelect?: (ids: Set<string>) => void;
  view?: string;
  sort?: string;
  onSort?: (key: string) => void;
  onHold?: (held: boolean) => void;
}) {
  const { rows, columns, id, label, selected, onSelect } = props;
  const box = useRef<HTMLDivElement>(null);
  const [focus, setFocus] = useState(0);
  const holding = useRef({ pointed: false, focused: false });
  /** Rows stay where the pointer or the focus is. */
  const hold = (more: Partial<{ pointed: boolean; focused: boolean }>) => {
    Object.assign(holding.current, more);
    props.onHold?.(holding.current.pointed || holding.current.focused);
  };
  const view = useWindow(box, rows.length);
  useEffect(() => {
    if (box.current) box.current.scrollTop = 0;
    setFocus(0);
  }, [props.view]);
  const first = prefs.value.plain ? view.page * PLAIN_PAGE : view.first;
  const last = prefs.value.plain ? first + PLAIN_PAGE : view.last;
  const at = Math.min(focus, Math.max(0, rows.length - 1));
  const move = (next: number) => {
    const to = Math.max(0, Math.min(rows.length - 1, next));
    setFocus(to);
    reveal(box.current, to);
  };
  const keys = (event: KeyboardEvent) => onKey(event, { ...props, at, move });
  const ticks = useTicks(props);
  const shown = rows.slice(first, last);
  const template = columns.map((column) => column.width ?? "1fr").join(" ");
  const style = { "--columns": onSelect ? `32px ${template}` : template };
  return (
    <div class="grid-frame" style={style}>
      <div
        class={prefs.value.plain ? "grid plain" : "grid"}
        role="grid"
        aria-label={label}
        aria-rowcount={rows.length + 1}
        aria-multiselectable={onSelect ? "true" : undefined}
        tabindex={0}
        ref={box}
        aria-activedescendant={rows.length ? `row-${label}-${at}` : undefined}
        onKeyDown={keys}
        onScroll={view.onScroll}
        onPointerEnter={() => hold({ pointed: true })}
        onPointerLeave={() => hold({ pointed: false })}
        onFocusIn={() => hold({ focused: true })}
        onFocusOut={() => hold({ focused: false })}
      >
        <TableHead
          columns={columns}
          all={onSelect && <All {...props} />}
          sort={props.sort}
          onSort={props.onSort}
        />
        <div class="body" role="rowgroup" style={bodyStyle(rows.length)}>
          <div role="presentation" style={translated(first)}>
            {shown.map((row, place) => (
              <Row
                key={id(row)}
                row={row}
                columns={columns}
                label={label}
                index={first + place}
                active={first + place === at}
                checked={selected?.has(id(row))}
                onOpen={props.onOpen}
                onFocus={() => setFocus(first + place)}
                ticks={onSelect && ticks}
              />
            ))}
          </div>
        </div>
      </div>
      {prefs.value.plain && rows.length > PLAIN_PAGE && <Pager view={view} rows={rows.length} />}
    </div>
  );
}

const bodyStyle = (rows: number) => (prefs.value.plain ? {} : { height: `${rows * rowHeight()}px` });
const translated = (first: number) =>
  prefs.value.plain ? {} : { transform: `translateY(${first * rowHeight()}px)` };

function toggled(all: Set<string> | undefined, id: string) {
  const next = new Set(all);
  if (!next.delete(id)) next.add(id);
  return next;
}

/** The ids of rows from one to another one, whichever is the first. */
const between = (rows: any[], id: (row: any) => string, one: number, other: number): string[] =>
  rows.slice(Math.min(one, other), Math.max(one, other) + 1).map(id);

/** A selection with these ids, or without them. */
function withIds(selected: Set<string> | undefined, ids: string[], on: boolean) {
  const next = new Set(selected);
  for (const id of ids) {
    if (on) next.add(id);
    else next.delete(id);
  }
  return next;
}

interface Ticks {
  /** A box is pressed; with Shift it is the end of a range. */
  toggle: (index: number, range: boolean) => void;
  /** The pointer goes down on a box, from which it may be drawn over others. */
  begin: (index: number) => void;
  /** The pointer comes to a row. */
  reach: (index: number, pressed: boolean) => void;
}

/** How boxes are ticked: one, a range to the last one that was pressed, those that the pointer is drawn over. */
function useTicks({ rows, id, selected, onSelect }: Parameters<typeof Table>[0]): Ticks {
  /** The last box that was pressed. */
  const anchor = useRef("");
  const drag = useRef<{ from: number; on: boolean; moved?: boolean; before: Set<string> | undefined } | null>(
    null,
  );
  return {
    toggle(index, range) {
      const row = id(rows[index]);
      const start = range ? rows.findIndex((other) => id(other) === anchor.current) : -1;
      const ids = start < 0 ? [row] : between(rows, id, start, index);
      anchor.current = row;
      onSelect?.(withIds(selected, ids, !selected?.has(row)));
    },
    begin(index) {
      drag.current = { from: index, on: !selected?.has(id(rows[index])), before: selected };
    },
    reach(index, pressed) {
      if (!pressed) drag.current = null;
      if (!drag.current || (!drag.current.moved && drag.current.from === index)) return;
      drag.current.moved = true;
      const { from, on, before } = drag.current;
      onSelect?.(withIds(before, between(rows, id, from, index), on));
    },
  };
}

/** The box of the head: all rows that the filter shows, also those that are not drawn. */
function All({ rows, id, selected, onSelect }: Parameters<typeof Table>[0]) {
  const count = rows.filter((row) => selected?.has(id(row))).length;
  const every = rows.length > 0 && count === rows.length;
  const label = `Select all ${rows.length} that match`;
  return (
    <input
      type="checkbox"
      tabindex={-1}
      aria-label={label}
      title={label}
      checked={every}
      indeterminate={count > 0 && !every}
      onClick={() => onSelect?.(withIds(selected, rows.map(id), !every))}
    />
  );
}

function TableHead({
  columns,
  all,
  sort,
  onSort,
}: {
  columns: Column[];
  all: any;
  sort: string | undefined;
  onSort: ((key: string) => void) | undefined;
}) {
  return (
    <div class="row head" role="row" aria-rowindex={1}>
      {all && <span role="columnheader">{all}</span>}
      {columns.map((column) => {
        const order = sort === column.key ? "ascending" : sort === `-${column.key}` ? "descending" : "none";
        return (
          <span role="columnheader" aria-sort={order} class={`${column.key}${column.wide ? " wide" : ""}`}>
            {onSort ? (
              <button class="quiet" tabindex={-1} onClick={() => onSort(column.key)}>
                {column.title}
                {order === "ascending" ? " ↑" : order === "descending" ? " ↓" : ""}
              </button>
            ) : (
              column.title
            )}
          </span>
        );
      })}
    </div>
  );
}

function Row({ row, columns, label, index, active, checked, onOpen, onFocus, ticks }: any) {
  const element = useRef<HTMLDivElement>(null);
  useFade(element);
  return (
    <div
      ref={element}
      class={`row${active ? " active" : ""}${checked ? " checked" : ""}`}
      role="row"
      id={`row-${label}-${index}`}
      aria-rowindex={index + 2}
      aria-selected={ticks ? !!checked : undefined}
      onClick={onFocus}
      onDblClick={(event: MouseEvent) => (event.target as HTMLElement).closest(".tick") || onOpen(row)}
      onPointerEnter={ticks && ((event: PointerEvent) => ticks.reach(index, event.buttons === 1))}
    >
      {ticks && (
        <span role="gridcell" class="tick" onPointerDown={() => ticks.begin(index)}>
          <input
            type="checkbox"
            tabindex={-1}
            aria-label={`Select ${visible(row.name ?? row.uuid)}`}
            checked={!!checked}
            onClick={(event) => ticks.toggle(index, event.shiftKey)}
          />
        </span>
      )}
      {columns.map((column: Column) => (
        <span role="gridcell" class={`cell ${column.key}${column.wide ? " wide" : ""}`}>
          {column.cell(row)}
        </span>
      ))}
    </div>
  );
}

function Pager({ view, rows }: any) {
  const pages = Math.ceil(rows / PLAIN_PAGE);
  return (
    <div class="pager">
      <button disabled={view.page === 0} onClick={() => view.setPage(view.page - 1)}>
        Before
      </button>
      Page {view.page + 1} of {pages}
      <button disabled={view.page + 1 >= pages} onClick={() => view.setPage(view.page + 1)}>
        Next
      </button>
    </div>
  );
}

function useWindow(box: { current: HTMLElement | null }, count: number) {
  const [top, setTop] = useState(0);
  const [height, setHeight] = useState(600);
  const [page, setPage] = useState(0);
  useLayoutEffect(() => {
    const element = box.current;
    if (!element) return undefined;
    const observer = new ResizeObserver(() => setHeight(element.clientHeight));
    observer.observe(element);
    return () => observer.disconnect();
  }, []);
  useEffect(() => {
    if (page * PLAIN_PAGE >= count) setPage(0);
  }, [count]);
  const tall = rowHeight();
  const first = Math.max(0, Math.floor(top / tall) - BEYOND);
  const onScroll = (event: Event) => setTop((event.currentTarget as HTMLElement).scrollTop);
  const last = Math.min(count, Math.ceil((top + height) / tall) + BEYOND);
  return { first: Math.min(first, Math.max(0, count - 1)), last, page, setPage, onScroll };
}

function reveal(box: HTMLElement | null, index: number) {
  if (!box || prefs.value.plain) return;
  const top = index * rowHeight();
  const space = box.clientHeight - 2 * rowHeight();
  if (top < box.scrollTop) box.scrollTop = top;
  else if (top > box.scrollTop + space) box.scrollTop = top - space;
}

function onKey(event: KeyboardEvent, { rows, at, move, id, selected, onSelect, onOpen, onCopy }: any) {
  const focused = event.target as HTMLElement;
  // A link or a button of the table acts itself.
  if (event.key === "Enter" && focused.closest("a, button")) return;
  if (event.key === " " && focused.closest("button")) return;
  const row = rows[at];
  const single = prefs.value.keys && !event.ctrlKey && !event.metaKey;
  /** With Shift, the row that is left and the one that is reached are selected. */
  const step = (by: number) => {
    if (event.shiftKey && row && onSelect) {
      const next = rows[at + by] ?? row;
      onSelect(withIds(selected, [id(row), id(next)], true));
    }
    move(at + by);
  };
  const acts: Record<string, () => void> = {
    ArrowDown: () => step(1),
    ArrowUp: () => step(-1),
    PageDown: () => move(at + 20),
    PageUp: () => move(at - 20),
    Home: () => move(0),
    End: () => move(rows.length - 1),
    Enter: () => row && onOpen(row),
    ...(single && onCopy && { c: () => row && onCopy(row) }),
    " ": () => row && onSelect?.(toggled(selected, id(row))),
    ...(single && { j: () => move(at + 1), k: () => move(at - 1) }),
    ...(single && { x: () => row && onSelect?.(toggled(selected, id(row))) }),
  };
  if ((event.ctrlKey || event.metaKey) && event.key === "a" && onSelect) {
    onSelect(new Set(rows.map(id)));
    event.preventDefault();
    return;
  }
  const act = acts[event.key];
  // The space is for the box that has the focus.
  if (!act || (event.key === " " && focused.tagName === "INPUT")) return;
  act();
  event.preventDefault();
  event.stopPropagation();
}
