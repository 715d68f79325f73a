// @ts-check
// ---- profiles: the samples behind flame graphs, as a tree of callers and callees ----

/** @typedef {{ name: string, exporter: string, classes: [string, string][],
 *   functions: [string, string, number][], nodes: number[],
 *   views: { group: string, at: string, own: number[] }[] }} ProfileData as a page holds it */
/** @typedef {{ name: string, group: string, own: number[] }} Shown samples of each node */
/** @typedef {{ file: ProfileData, parents: number[], functions: number[], names: number[],
 *   views: Shown[] }} Profiles a parent is -1 for none; names are the first function of that name */

/** @param {ProfileData} file
 * @returns {Profiles}
 */
const readProfiles = (file) => {
  /** @type {number[]} */
  const parents = [];
  /** @type {number[]} */
  const functions = [];
  for (let at = 0; at < file.nodes.length; at += 2) {
    const back = file.nodes[at];
    parents.push(back ? parents.length - back : -1);
    functions.push(file.nodes[at + 1]);
  }
  const profiles = /** @type {Profiles} */ ({ file, parents, functions, names: [], views: [] });
  for (const { group, at, own } of file.views) {
    const all = new Array(parents.length).fill(0);
    for (let i = 0, node = 0; i < own.length; i += 2) all[(node += own[i])] = own[i + 1];
    profiles.views.push({ name: at ? `${group}, ${at}` : group, group, own: all });
  }
  for (const group of new Set(file.views.map((one) => one.group))) {
    const parts = profiles.views.filter((one) => one.group === group);
    if (parts.length < 2) continue;
    const own = parts[0].own.map((_, node) => parts.reduce((sum, part) => sum + part.own[node], 0));
    profiles.views.push({ name: `${group}, all together`, group, own });
  }
  nameFunctions(profiles);
  return profiles;
};

/** One name may be that of several functions, in several libraries.
 * @param {Profiles} profiles
 */
const nameFunctions = (profiles) => {
  /** @type {Map<string, number>} */
  const known = new Map();
  profiles.names = profiles.file.functions.map(([name], index) => {
    if (!known.has(name)) known.set(name, index);
    return /** @type {number} */ (known.get(name));
  });
};

/** The view that a figure begins with: of all client counts where there are several.
 * @param {Profiles} profiles
 * @param {string | undefined} group
 */
const wholeOf = (profiles, group) => {
  const of = profiles.views.filter((one) => one.group === group);
  return of[of.length - 1];
};

/** Takes a speedscope file's samples in, as views of a group named after the file.
 * @param {Profiles} profiles
 * @param {string} text
 * @param {string} name
 * @returns {string} of the first view
 */
const takeIn = (profiles, text, name) => {
  const { file, parents, functions, views } = profiles;
  const foreign = JSON.parse(text);
  const frames = foreign?.shared?.frames;
  const sampled = (foreign?.profiles || []).filter((/** @type {any} */ one) => one?.type === "sampled");
  if (!Array.isArray(frames) || !sampled.length) throw new Error("no sampled profile of speedscope's format");
  const index = new Map(file.functions.map(([symbol], at) => [symbol, at]));
  /** @type {number[]} */
  const known = frames.map((/** @type {any} */ frame) => {
    const symbol = String(frame?.name);
    if (!index.has(symbol)) {
      // The class of a function is known by those that have its name.
      const other = file.classes.findIndex(([title]) => title === "other");
      index.set(symbol, file.functions.push([symbol, String(frame?.file || ""), other]) - 1);
    }
    return /** @type {number} */ (index.get(symbol));
  });
  nameFunctions(profiles);
  /** @type {Map<string, number>} */
  const places = new Map();
  parents.forEach((parent, node) => places.set(`${parent} ${profiles.names[functions[node]]}`, node));
  let first = "";
  for (const one of sampled) {
    /** @type {number[]} */
    const own = new Array(parents.length).fill(0);
    one.samples.forEach((/** @type {number[]} */ chain, /** @type {number} */ at) => {
      let node = -1;
      for (const frame of chain) {
        const place = `${node} ${profiles.names[known[frame]]}`;
        let next = places.get(place);
        if (next === undefined) {
          next = parents.push(node) - 1;
          functions.push(known[frame]);
          places.set(place, next);
        }
        node = next;
      }
      const weight = Number(one.weights?.[at] ?? 1);
      if (node >= 0 && weight > 0) own[node] = (own[node] || 0) + weight;
    });
    const shown = { name: `${name}: ${String(one.name)}`, group: name, own };
    views.push(shown);
    first ||= shown.name;
  }
  for (const { own } of views) for (let at = 0; at < parents.length; at++) own[at] ||= 0;
  return first;
};

/** @param {Shown} shown */
const samplesOf = (shown) => shown.own.reduce((sum, weight) => sum + weight, 0);

/** A function's figures, as shares of all samples: own, with what it called; and by name of the function, how much came from each caller and went to each callee. A sample counts once, however often a function calls itself.
 * @param {Profiles} profiles
 * @param {Shown} shown
 * @param {number} [chosen] by name
 */
const byFunction = ({ parents, functions, names }, shown, chosen = -1) => {
  const all = samplesOf(shown) || 1;
  /** @type {Map<number, { own: number, total: number }>} */
  const each = new Map();
  /** @type {Map<number, number>} */
  const from = new Map();
  /** @type {Map<number, number>} */
  const to = new Map();
  const add = (/** @type {Map<number, number>} */ map, /** @type {number} */ name, /** @type {number} */ weight) =>
    map.set(name, (map.get(name) || 0) + weight / all);
  shown.own.forEach((weight, leaf) => {
    if (!weight) return;
    const seen = new Set();
    const [callers, callees] = [new Set(), new Set()];
    let below = -1;
    for (let node = leaf; node >= 0; node = parents[node]) {
      const name = names[functions[node]];
      if (!each.has(name)) each.set(name, { own: 0, total: 0 });
      const figures = /** @type {{ own: number, total: number }} */ (each.get(name));
      if (node === leaf) figures.own += weight / all;
      if (!seen.has(name)) figures.total += weight / all;
      seen.add(name);
      if (name === chosen) {
        if (below >= 0) callees.add(below);
        callers.add(parents[node] >= 0 ? names[functions[parents[node]]] : -1);
      }
      below = name;
    }
    for (const name of callers) add(from, name, weight);
    for (const name of callees) add(to, name, weight);
  });
  return { each, from, to };
};

// ---- what is saved for other programs ----

/** @param {Profiles} profiles */
const toSpeedscope = ({ file, parents, functions, views }) => {
  const chain = (/** @type {number} */ leaf) => {
    const above = [];
    for (let node = leaf; node >= 0; node = parents[node]) above.push(functions[node]);
    return above.reverse();
  };
  return {
    $schema: "https://www.speedscope.app/file-format-schema.json",
    name: file.name,
    exporter: file.exporter,
    activeProfileIndex: 0,
    shared: { frames: file.functions.map(([name, object]) => (object ? { name, file: object } : { name })) },
    profiles: views.slice(0, file.views.length).map((shown) => {
      const nodes = [...shown.own.keys()].filter((node) => shown.own[node]);
      return {
        type: "sampled",
        name: shown.name,
        unit: "none",
        startValue: 0,
        endValue: samplesOf(shown),
        samples: nodes.map(chain),
        weights: nodes.map((node) => shown.own[node]),
      };
    }),
  };
};

/** The processed profile format of the Firefox Profiler, version 55: a thread for each profile.
 * @param {Profiles} profiles
 */
const toFirefox = ({ file, parents, functions, views }) => {
  const colours = { "look-0": "blue", "look-1": "orange", "look-2": "green", "look-3": "purple" };
  const exported = views.slice(0, file.views.length);
  const whole = exported.every((shown) => shown.own.every((weight) => weight % 1 === 0));
  const column = (/** @type {number} */ length, /** @type {unknown} */ value) => new Array(length).fill(value);
  const categories = [{ name: "Other", color: "grey", subcategories: ["Other"] }];
  for (const [name, look] of file.classes) {
    const color = colours[/** @type {keyof typeof colours} */ (look)] || "grey";
    categories.push({ name, color, subcategories: ["Other"] });
  }
  const threads = exported.map((shown, index) => {
    const count = file.functions.length;
    const nodes = [...shown.own.keys()].filter((node) => shown.own[node]);
    const weight = nodes.map((node) => Math.round(shown.own[node] * (whole ? 1 : 100)));
    return {
      frameTable: {
        length: count,
        address: column(count, -1),
        inlineDepth: column(count, 0),
        category: file.functions.map(([, , category]) => category + 1),
        subcategory: column(count, 0),
        func: file.functions.map((_, at) => at),
        nativeSymbol: column(count, null),
        innerWindowID: column(count, 0),
        line: column(count, null),
        column: column(count, null),
      },
      funcTable: {
        length: count,
        name: file.functions.map((_, at) => at),
        isJS: column(count, false),
        relevantForJS: column(count, false),
        resource: column(count, -1),
        fileName: column(count, null),
        lineNumber: column(count, null),
        columnNumber: column(count, null),
      },
      stackTable: {
        length: parents.length,
        prefix: parents.map((parent) => (parent < 0 ? null : parent)),
        frame: functions,
      },
      samples: {
        length: nodes.length,
        weightType: "samples",
        stack: nodes,
        // Samples are folded: they have no times, and are laid out one after the other.
        timeDeltas: weight.map((_, at) => (at ? weight[at - 1] : 0)),
        weight,
        threadCPUDelta: column(nodes.length, 0),
      },
      markers: { length: 0, category: [], data: [], endTime: [], name: [], phase: [], startTime: [] },
      resourceTable: { length: 0, lib: [], name: [], host: [], type: [] },
      nativeSymbols: { length: 0, address: [], functionSize: [], libIndex: [], name: [] },
      stringArray: file.functions.map(([name]) => name),
      name: shown.name,
      processName: shown.name,
      processType: "default",
      processStartupTime: 0,
      processShutdownTime: null,
      registerTime: 0,
      unregisterTime: null,
      isMainThread: true,
      showMarkersInTimeline: false,
      pausedRanges: [],
      pid: String(index + 1),
      tid: String(index + 1),
    };
  });
  return {
    meta: {
      categories,
      debug: false,
      extensions: { length: 0, baseURL: [], id: [], name: [] },
      interval: 1,
      preprocessedProfileVersion: 55,
      processType: 0,
      product: file.name,
      sampleUnits: { eventDelay: "ms", threadCPUDelta: "µs", time: "ms" },
      startTime: 0,
      symbolicated: true,
      pausedRanges: [],
      version: 24,
      usesOnlyOneStackType: true,
      sourceCodeIsNotOnSearchfox: true,
      markerSchema: [],
    },
    libs: [],
    threads,
    pages: [],
    profilerOverhead: [],
    counters: [],
  };
};

/** Hands a file to the browser, which asks no network for it.
 * @param {object} content
 * @param {string} name
 */
const save = (content, name) => {
  const address = URL.createObjectURL(new Blob([JSON.stringify(content)], { type: "application/json" }));
  make("a", { href: address, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(address), 10000);
};
