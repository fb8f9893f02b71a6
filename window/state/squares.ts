/** Squares of many nodes in groups: where each stands, and the lines that draw it. */

/** `full`, `half`, `empty`, `ring`, `triangle`, `slash`, `dot`, and levels from 1 to 5 */
export type Shape = "full" | "half" | "empty" | "ring" | "triangle" | "slash" | "dot" | Level;
export type Level = "level1" | "level2" | "level3" | "level4" | "level5";

/** What a square shows: a shape, the tone of its colour, and the word for both. */
export interface Mark {
  shape: Shape;
  tone: string;
  word: string;
}

export interface Square {
  id: string;
  name: string;
  mark: Mark;
}

export interface Group {
  title: string;
  squares: Square[];
}

export interface Placed extends Square {
  /** of its left upper corner */
  x: number;
  y: number;
  group: string;
}

export interface Layout {
  /** side of a square with the gap to the next one */
  cell: number;
  width: number;
  height: number;
  titles: (Group & { x: number; y: number; width: number })[];
  placed: Placed[];
}

const LARGEST = 18;
const SMALLEST = 6;
/** Height of the line with the title of a group. */
const TITLE = 24;
const BETWEEN = 6;
const LETTER = 7;
const LONGEST_TITLE = 100;
/** Shapes of blocks: columns for one row. The widest one that fits is taken. */
const ASPECTS = [16, 8, 4, 2, 1, 0.5];

/** A group with the place and the columns of its block. */
interface Block extends Group {
  columns: number;
  x: number;
  y: number;
  wide: number;
}

/** @returns the largest squares that fit in this room; if none fit, the smallest ones, with more height */
export function layout(groups: Group[], width: number, height: number): Layout {
  let best: Arranged | undefined;
  for (let cell = LARGEST; cell >= SMALLEST; cell -= 1) {
    for (const aspect of ASPECTS) {
      const next = arranged(groups, width, cell, aspect);
      if (next.height <= height) return placed(next, width);
      if (!best || next.height <= best.height) best = next;
    }
  }
  return placed(best!, width);
}

interface Arranged {
  cell: number;
  blocks: Block[];
  height: number;
}

/** Blocks beside each other as far as there is room, then below. */
function arranged(groups: Group[], width: number, cell: number, aspect: number): Arranged {
  const most = Math.max(1, Math.floor(width / cell));
  let x = 0;
  let y = 0;
  let row = 0;
  const blocks = groups.map((group): Block => {
    const { length } = group.squares;
    const columns = Math.max(1, Math.min(most, length, Math.ceil(Math.sqrt(length * aspect))));
    const title = Math.min(width, LONGEST_TITLE, (group.title.length + 1) * LETTER);
    const wide = Math.max(columns * cell, title);
    if (x && x + wide > width) {
      x = 0;
      y += row + BETWEEN;
      row = 0;
    }
    const block = { ...group, columns, x, y, wide };
    x += wide + BETWEEN;
    row = Math.max(row, TITLE + Math.ceil(length / columns) * cell);
    return block;
  });
  return { cell, blocks, height: y + row };
}

const placed = ({ cell, blocks, height }: Arranged, width: number): Layout => ({
  cell,
  width,
  height,
  titles: blocks.map(({ title, squares, x, y, wide }) => ({ title, x, y, width: wide, squares })),
  placed: blocks.flatMap(({ title, squares, columns, x, y }) =>
    squares.map((square, at) => ({
      ...square,
      group: title,
      x: x + (at % columns) * cell,
      y: y + TITLE + Math.floor(at / columns) * cell,
    })),
  ),
});

/** @returns the square at a point, or -1 */
export const indexAt = ({ placed, cell }: Layout, x: number, y: number): number =>
  placed.findIndex((square) => x >= square.x && x < square.x + cell && y >= square.y && y < square.y + cell);

/** @returns ids of the squares that a frame between two points touches */
export function within({ placed, cell }: Layout, from: Point, to: Point): string[] {
  const [left, right] = from.x < to.x ? [from.x, to.x] : [to.x, from.x];
  const [top, bottom] = from.y < to.y ? [from.y, to.y] : [to.y, from.y];
  return placed
    .filter(({ x, y }) => x < right && x + cell > left && y < bottom && y + cell > top)
    .map(({ id }) => id);
}

export interface Point {
  x: number;
  y: number;
}

/** @returns the square that a key leads to from another one; the same one at the edge */
export function neighbour({ placed }: Layout, from: number, key: string): number {
  const at = placed[from];
  if (!at) return 0;
  const last = placed.length - 1;
  const plain = {
    ArrowLeft: Math.max(0, from - 1),
    ArrowRight: Math.min(last, from + 1),
    Home: 0,
    End: last,
  };
  if (key in plain) return plain[key as keyof typeof plain];
  const way = key === "ArrowDown" ? 1 : -1;
  let best = from;
  let least = Infinity;
  for (const [index, { x, y }] of placed.entries()) {
    const down = (y - at.y) * way;
    if (down <= 0) continue;
    // A square in the same column is nearer than one beside it in the next row.
    const far = down + 3 * Math.abs(x - at.x);
    if (far >= least) continue;
    best = index;
    least = far;
  }
  return best;
}

const box = (x: number, y: number, wide: number, high: number) => `M${x} ${y}h${wide}v${high}h${-wide}z`;
/** Two decimals: a path has thousands of them. */
const short = (number: number) => Math.round(number * 100) / 100;

/**
 * @param s its side
 * @returns a path, filled by the rule `evenodd`
 */
export function outline(shape: Shape, x: number, y: number, s: number): string {
  const line = Math.max(1, short(s / 8));
  const inner = s - 2 * line;
  const frame = box(x, y, s, s) + box(x + line, y + line, inner, inner);
  switch (shape) {
    case "full":
      return box(x, y, s, s);
    case "half":
      return box(x, y, s, s) + box(short(x + s / 2), y + line, short(s / 2 - line), inner);
    case "empty":
      return frame;
    case "ring":
      return box(x, y, s, s) + box(short(x + s / 3), short(y + s / 3), short(s / 3), short(s / 3));
    case "triangle":
      return `M${x} ${y + s}h${s}l${-s / 2} ${-s}z`;
    case "slash":
      return `M${x} ${y + s}v${-2 * line}l${s - 2 * line} ${2 * line - s}h${2 * line}v${2 * line}l${2 * line - s} ${s - 2 * line}z`;
    case "dot":
      return box(short(x + s / 3), short(y + s / 3), short(s / 3), short(s / 3));
    default: {
      const high = short((s * Number(shape.slice(-1))) / 5);
      return box(x, short(y + s - high), s, high) + (high < s ? box(x, y, s, line) : "");
    }
  }
}

/** Marks by their words, with the number of squares and the path of all of them. */
export interface Drawn extends Mark {
  count: number;
  path: string;
}

/** @returns one path for each mark: few elements, however many squares there are */
export function drawn({ placed, cell }: Layout): Drawn[] {
  const side = cell - (cell > 8 ? 2 : 1);
  const found = new Map<string, Mark & { parts: string[] }>();
  for (const { mark, x, y } of placed) {
    const known = found.get(mark.word) ?? { ...mark, parts: [] };
    known.parts.push(outline(mark.shape, x, y, side));
    found.set(mark.word, known);
  }
  return [...found.values()].map(({ parts, ...mark }) => ({
    ...mark,
    count: parts.length,
    path: parts.join(""),
  }));
}

/** @returns numbers of squares by the words of their marks: `9 done, 2 failed` */
export function counted(squares: Square[]): string {
  const counts = new Map<string, number>();
  for (const { mark } of squares) counts.set(mark.word, (counts.get(mark.word) ?? 0) + 1);
  return [...counts].map(([word, count]) => `${count} ${word}`).join(", ");
}
