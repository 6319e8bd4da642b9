/** The wiring, live: an outline that can be read and searched, the picture, and what is selected. */
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import { away, failedWithin, shown, wiring } from "../host/follow";
import type { Structure } from "../host/model";
import { useCell } from "../ui/cell";
import { Skeleton } from "../ui/parts";
import { theme } from "../ui/theme";
import { Details, describe } from "./details";
import { find, neighbour } from "./find";
import { type Camera, draw, itemAt, linkAt } from "./draw";
import { layered } from "./elk";
import { type Group, type Grouping, firstGrouping, groups } from "./groups";
import { type Item, type Placed, place } from "./layout";
import { Outline } from "./outline";
import { palette } from "./palette";
import { reasons, watchReasons } from "./reasons";

/** What is chosen outlives a change of the view. */
const kept: { grouping: Grouping | null; open: Set<string>; selected: string | null; camera: Camera | null; search: string } = { grouping: null, open: new Set(), selected: null, camera: null, search: "" };

export function Wiring() {
  const structure = useCell(wiring);
  if (!structure) {
    return (
      <div class="view">
        <h1>Wiring</h1>
        <Skeleton lines={6} />
      </div>
    );
  }
  if (structure.nodes.length === 0) {
    return (
      <div class="view">
        <h1>Wiring</h1>
        <p class="nothing">
          Nothing is here yet. <code>superfluid apply -f FILE</code> makes ports, functions and chains of a file; <code>examples/generator.yaml</code> needs no interface.
        </p>
      </div>
    );
  }
  return <Picture structure={structure} />;
}

function Picture({ structure }: { structure: Structure }) {
  const [grouping, setGrouping] = useState<Grouping>(() => (kept.grouping ??= firstGrouping(structure)));
  const [open, setOpen] = useState<ReadonlySet<string>>(kept.open);
  const [selected, setSelected] = useState<string | null>(kept.selected);
  const [search, setSearch] = useState(kept.search);
  const all = useMemo(() => groups(structure, grouping), [structure, grouping]);
  const found = useMemo(() => find(structure, search), [structure, search]);
  const canvas = useRef<CanvasHandle | null>(null);

  const select = (id: string | null): void => {
    kept.selected = id;
    setSelected(id);
  };
  const toggle = (id: string): void => {
    const next = new Set(open);
    if (!next.delete(id)) next.add(id);
    kept.open = next;
    setOpen(next);
  };
  const regroup = (next: Grouping): void => {
    kept.grouping = next;
    setGrouping(next);
    // Another picture is looked at from its beginning.
    canvas.current?.forget();
  };
  /** Selects a node and brings it into sight, in an open group if need be. */
  const reveal = (id: string): void => {
    const member = structure.byId.get(id);
    const group = member === undefined ? undefined : all.find((group) => group.members.includes(member));
    if (group && !open.has(group.id)) toggle(group.id);
    select(id);
    canvas.current?.show(id);
  };
  return (
    <div class="wiring">
      <aside class="side left" aria-label="Outline">
        <h1 class="hidden-text">Wiring</h1>
        <label>
          Search
          <input
            type="search"
            id="search"
            placeholder="name, tenant, chain"
            value={search}
            onInput={(event) => {
              kept.search = event.currentTarget.value;
              setSearch(event.currentTarget.value);
            }}
          />
        </label>
        <label>
          Group by
          <select value={grouping} onChange={(event) => regroup(event.currentTarget.value as Grouping)}>
            <option value="chain">chain</option>
            <option value="tenant">tenant</option>
            <option value="none">nothing</option>
          </select>
        </label>
        <Outline structure={structure} groups={all} open={open} found={found} selected={selected} select={select} toggle={toggle} reveal={reveal} />
      </aside>
      <Canvas structure={structure} groups={all} open={open} found={found} selected={selected} select={select} toggle={toggle} handle={canvas} />
      <aside class="side right" aria-label="Selected">
        <Details structure={structure} groups={all} selected={selected} open={open} toggle={toggle} reveal={reveal} />
      </aside>
    </div>
  );
}

interface CanvasHandle {
  show(id: string): void;
  forget(): void;
}

interface CanvasProps {
  structure: Structure;
  groups: Group[];
  open: ReadonlySet<string>;
  found: ReadonlySet<string> | null;
  selected: string | null;
  select: (id: string | null) => void;
  toggle: (id: string) => void;
  handle: { current: CanvasHandle | null };
}

const SCALES = { least: 0.04, most: 2.5 };
const clamp = (value: number, least: number, most: number): number => Math.max(least, Math.min(most, value));

function Canvas(props: CanvasProps) {
  const { structure, groups, open, found, selected, select, toggle, handle } = props;
  const element = useRef<HTMLCanvasElement>(null);
  const live = useRef({ placed: null as Placed | null, camera: kept.camera, hovered: null as string | null, colours: palette(), width: 1, height: 1, wanted: null as string | null, ...props });
  Object.assign(live.current, { structure, found, selected });
  const said = useMemo(() => describe(structure, groups, selected, shown.get()), [selected, structure, groups]);

  const paint = (): void => {
    const { placed, camera, width, height } = live.current;
    const context = element.current?.getContext("2d");
    if (!context || !placed || !camera) return;
    const pixels = devicePixelRatio;
    context.setTransform(pixels, 0, 0, pixels, 0, 0);
    draw(context, {
      of: live.current.structure,
      placed,
      frame: shown.get()?.pps.length === live.current.structure.nodes.length ? shown.get() : null,
      camera,
      width,
      height,
      colours: live.current.colours,
      selected: live.current.selected,
      hovered: live.current.hovered,
      found: live.current.found,
      reasons: reasons.get(),
      failed: failedWithin(60_000),
      old: away.get() !== null,
      labels: [],
    });
  };
  /** Shows all of it; at first not smaller than can be read. */
  const fit = (least = 0.1): void => {
    const { placed, width, height } = live.current;
    if (!placed) return;
    // Buttons and the legend stand above and below.
    const [above, below] = [56, 44];
    const scale = clamp(Math.min((width - 40) / Math.max(placed.width, 1), (height - above - below) / Math.max(placed.height, 1)), least, 1.25);
    const left = placed.width * scale > width - 40 ? -20 / scale : (placed.width - width / scale) / 2;
    const room = height - above - below;
    // What is higher than there is room for begins at its top.
    const top = placed.height * scale > room ? -above / scale : placed.height / 2 - (above + room / 2) / scale;
    live.current.camera = { scale, x: left, y: top };
    kept.camera = live.current.camera;
    paint();
  };
  const zoom = (by: number, x = live.current.width / 2, y = live.current.height / 2): void => {
    const { camera } = live.current;
    if (!camera) return;
    const scale = clamp(camera.scale * by, SCALES.least, SCALES.most);
    live.current.camera = kept.camera = { scale, x: camera.x + x / camera.scale - x / scale, y: camera.y + y / camera.scale - y / scale };
    paint();
  };
  const centre = (item: Item): void => {
    const { camera, width, height } = live.current;
    if (!camera) return;
    const scale = item.group && item.open ? clamp(Math.min((width - 60) / item.width, (height - 60) / item.height), 0.35, 1) : clamp(camera.scale, 0.75, SCALES.most);
    live.current.camera = kept.camera = { scale, x: item.x + item.width / 2 - width / 2 / scale, y: item.y + item.height / 2 - height / 2 / scale };
    paint();
  };
  const inSight = (item: Item): boolean => {
    const { camera, width, height } = live.current;
    return camera !== null && camera.scale > 0.5 && item.x >= camera.x && item.y >= camera.y && item.x + item.width <= camera.x + width / camera.scale && item.y + item.height <= camera.y + height / camera.scale;
  };
  const itemOf = (id: string): Item | undefined => live.current.placed?.items.find((item) => item.id === id) ?? live.current.placed?.inner.find((item) => item.id === id);
  handle.current = {
    forget: () => {
      live.current.camera = kept.camera = null;
    },
    show: (id) => {
      const item = itemOf(id);
      if (!item) live.current.wanted = id;
      else if (!inSight(item)) centre(item);
    },
  };

  // The size of the canvas, and what is drawn anew by itself.
  useLayoutEffect(() => {
    const box = element.current?.parentElement;
    if (!box || !element.current) return;
    const resize = (): void => {
      const { width, height } = box.getBoundingClientRect();
      Object.assign(live.current, { width, height });
      element.current!.width = Math.round(width * devicePixelRatio);
      element.current!.height = Math.round(height * devicePixelRatio);
      paint();
    };
    const observer = new ResizeObserver(resize);
    observer.observe(box);
    resize();
    const recolour = (): void => {
      live.current.colours = palette();
      paint();
    };
    const stops = [shown.listen(paint), away.listen(paint), reasons.listen(paint), theme.listen(() => requestAnimationFrame(recolour)), watchReasons()];
    return () => {
      observer.disconnect();
      for (const stop of stops) stop();
    };
  }, []);

  // Where everything stands.
  useEffect(() => {
    let left = false;
    const { width, height } = live.current;
    const before = live.current.placed;
    const anchor = before?.items.find((item) => open.has(item.id) !== item.open && item.group) ?? before?.items.find((item) => item.id === live.current.selected);
    void place(structure, groups, open, width / Math.max(height, 1), layered).then((placed) => {
      if (left) return;
      live.current.placed = placed;
      const again = anchor && placed.items.find((item) => item.id === anchor.id);
      const { camera } = live.current;
      if (!camera) fit(structure.nodes.length < 60 ? 0.56 : 0.1);
      else if (anchor && again) {
        // What was pressed stays where the reader looks.
        live.current.camera = kept.camera = { ...camera, x: camera.x + again.x - anchor.x, y: camera.y + again.y - anchor.y };
        if (again.open && !anchor.open) centre(again);
      }
      const wanted = live.current.wanted && itemOf(live.current.wanted);
      if (wanted) {
        live.current.wanted = null;
        centre(wanted);
      }
      paint();
      performance.mark("superfluid:graph");
      if (again?.open && !anchor?.open) performance.mark("superfluid:chain-open");
      element.current?.setAttribute("data-stands", String(placed.items.length + placed.inner.length));
    });
    return () => {
      left = true;
    };
  }, [structure, groups, open]);

  useEffect(paint, [found, selected]);

  // Pointers: one moves the picture, two scale it.
  const pointers = useRef(new Map<number, { x: number; y: number }>());
  const moved = useRef(0);
  const place2 = (event: PointerEvent | WheelEvent): [number, number] => {
    const box = element.current!.getBoundingClientRect();
    return [event.clientX - box.left, event.clientY - box.top];
  };
  const onDown = (event: PointerEvent): void => {
    element.current!.setPointerCapture(event.pointerId);
    const [x, y] = place2(event);
    pointers.current.set(event.pointerId, { x, y });
    if (pointers.current.size === 1) moved.current = 0;
  };
  const onMove = (event: PointerEvent): void => {
    const [x, y] = place2(event);
    const { camera, placed } = live.current;
    if (!camera || !placed) return;
    const from = pointers.current.get(event.pointerId);
    if (!from) {
      const over = itemAt(placed, camera.x + x / camera.scale, camera.y + y / camera.scale)?.id ?? null;
      if (over !== live.current.hovered) {
        live.current.hovered = over;
        paint();
      }
      return;
    }
    const [other] = [...pointers.current].filter(([id]) => id !== event.pointerId).map(([, at]) => at);
    moved.current += Math.abs(x - from.x) + Math.abs(y - from.y);
    if (other) {
      const was = Math.hypot(from.x - other.x, from.y - other.y);
      zoom(Math.hypot(x - other.x, y - other.y) / Math.max(was, 1), other.x, other.y);
    } else {
      live.current.camera = kept.camera = { ...camera, x: camera.x - (x - from.x) / camera.scale, y: camera.y - (y - from.y) / camera.scale };
      paint();
    }
    pointers.current.set(event.pointerId, { x, y });
  };
  const onUp = (event: PointerEvent): void => {
    const pressed = pointers.current.delete(event.pointerId) && moved.current < 6;
    const { camera, placed } = live.current;
    if (!pressed || !camera || !placed || event.type === "pointercancel") return;
    const [screenX, screenY] = place2(event);
    const [x, y] = [camera.x + screenX / camera.scale, camera.y + screenY / camera.scale];
    const item = itemAt(placed, x, y);
    if (item) {
      select(item.id);
      if (item.group && (!item.open || y < item.y + 30)) toggle(item.id);
      return;
    }
    const link = linkAt(placed, x, y, 8 / camera.scale);
    select(link ? `edge/${structure.edges[link.edges[0]!]!.id}` : null);
  };
  const onWheel = (event: WheelEvent): void => {
    event.preventDefault();
    const [x, y] = place2(event);
    zoom(Math.exp(-clamp(event.deltaY, -120, 120) * (event.ctrlKey ? 0.01 : 0.002)), x, y);
  };
  useEffect(() => {
    const target = element.current;
    target?.addEventListener("wheel", onWheel, { passive: false });
    return () => target?.removeEventListener("wheel", onWheel);
  });
  const onKey = (event: KeyboardEvent): void => {
    const { placed, camera } = live.current;
    if (!placed || !camera || event.altKey || event.metaKey || event.ctrlKey) return;
    const step = 60 / camera.scale;
    const keys: Record<string, () => void> = {
      "+": () => zoom(1.25),
      "=": () => zoom(1.25),
      "-": () => zoom(0.8),
      "0": () => fit(),
      "/": () => document.getElementById("search")?.focus(),
      Escape: () => select(null),
      ArrowLeft: () => step2(-1, 0),
      ArrowRight: () => step2(1, 0),
      ArrowUp: () => step2(0, -1),
      ArrowDown: () => step2(0, 1),
      Enter: () => {
        const item = live.current.selected && itemOf(live.current.selected);
        if (item && item.group) toggle(item.id);
        else if (item) location.hash = `#/objects/${item.id.split("/").map(encodeURIComponent).join("/")}`;
      },
    };
    const step2 = (dx: number, dy: number): void => {
      if (event.shiftKey) {
        live.current.camera = kept.camera = { ...camera, x: camera.x + dx * step, y: camera.y + dy * step };
        return paint();
      }
      const next = neighbour(placed, live.current.selected, dx, dy);
      if (!next) return;
      select(next.id);
      if (!inSight(next)) centre(next);
    };
    const act = keys[event.key];
    if (!act) return;
    event.preventDefault();
    act();
  };
  return (
    <div class="picture">
      <canvas
        ref={element}
        tabIndex={0}
        role="application"
        aria-label="Picture of the wiring. Arrows go from node to node, Enter opens, plus and minus scale, 0 shows all, slash searches."
        onPointerDown={onDown}
        onPointerMove={onMove}
        onPointerUp={onUp}
        onPointerCancel={onUp}
        onKeyDown={onKey}
      />
      <div class="hidden-text" aria-live="polite">
        {said}
      </div>
      <div class="tools">
        <button type="button" aria-label="Larger" onClick={() => zoom(1.25)}>
          +
        </button>
        <button type="button" aria-label="Smaller" onClick={() => zoom(0.8)}>
          −
        </button>
        <button type="button" onClick={() => fit()}>
          All
        </button>
      </div>
      <div class="legend" aria-hidden="true">
        <span>
          <i class="swatch" /> processor time got
        </span>
        <span>
          <i class="swatch promised" /> promised
        </span>
        <span>
          <i class="swatch queue" /> queue
        </span>
        <span>
          <i class="swatch drop" /> lost
        </span>
      </div>
    </div>
  );
}
