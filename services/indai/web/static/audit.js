// The auditor's page: files that the visitor chooses are read and checked here, and go nowhere.
const page = document.querySelector("[data-audit]");
const say = (name) => page.dataset[name] ?? name;
// The words of checks in the visitor's language, by the English ones.
const told = JSON.parse(page.dataset.words);
const tell = (said) => (told[said.text] ?? said.text).replace(/\{(\w+)\}/g, (_, name) => { const hole = said.holes[name] ?? ""; return hole.text === undefined ? hole : tell(hole); });
const PARTS = ["leaf", "tlog_proof", "cose", "opening", "envelope"];
const bytes = new TextEncoder();
const MOST_SHOWN = 200;
let w, step, Wrong, Registry, proofs;

async function start() {
  const v = await import(page.dataset.verify), replay = await import(page.dataset.registry);
  proofs = await import(page.dataset.evidence);
  replay.use(v);
  proofs.use(v, replay);
  Registry = replay.Registry;
  ({ w, step, Wrong } = v);
  if (!(await v.able())) throw new Wrong(w("This browser cannot check Ed25519 signatures: use a newer one, or the command line."));
  const tables = await (await fetch(page.dataset.tables)).json();
  const input = page.querySelector("input[type=file]"), drop = page.querySelector("[data-drop]");
  const run = async (files) => { page.querySelector("[data-results]").replaceChildren(); await judge(v, tables, [...files]); };
  // Emptied at once, so that the same file can be chosen again when it has changed.
  input.addEventListener("change", () => { const files = [...input.files]; input.value = ""; run(files); });
  for (const name of ["dragover", "drop"]) drop.addEventListener(name, (event) => { event.preventDefault(); if (name === "drop") run(event.dataTransfer.files); });
  drop.hidden = false;
  page.dataset.ready = "yes";
}

async function judge(v, tables, files) {
  const known = { keys: [], ledgers: new Map(), people: new Map(), policy: null, registries: [], heads: new Map(), trees: new Map(), heard: new Map(), proved: new Set() }, subjects = [];
  for (const file of files) {
    try {
      const kind = await kindOf(file);
      if (kind === "policy") known.policy = await v.readPolicy(await file.text());
      else subjects.push([kind, file]);
    } catch (error) { report(file.name, [failed(error)]); }
  }
  // Every head in any of the files must be one of each tree of its log: they are gathered before a tree is rebuilt.
  for (const [kind, file] of subjects) {
    // Whatever is wrong with a file is said when it is read for itself.
    try { await gather(v, kind, file, known); } catch { continue; }
  }
  // Whom to trust is known by now: the registry is read next, and then what rests on it.
  for (const [kind, file] of subjects) {
    try { if (kind === "mirror") await readMirror(v, file, known); } catch (error) { report(file.name, [failed(error)]); }
  }
  known.keys.push(...(known.policy?.logs ?? []));
  for (const [kind, file] of subjects) {
    try {
      if (kind === "export") await checkExport(v, tables, file, known);
      else if (kind === "receipt") report(file.name, await receiptSteps(v, tables, JSON.parse(await file.text()), known));
      else if (!/^(mirror|fraud|words)$/.test(kind)) throw new Wrong(w("This is no receipt, export, mirror or policy."));
    } catch (error) { report(file.name, [failed(error)]); }
  }
  for (const [kind, file] of subjects) {
    try {
      if (kind === "fraud") {
        const found = await proofs.fraudSteps(await proofs.read(file), known);
        accuse(file.name, found);
        // What is no evidence says nothing beside other files either.
        if (found.steps.some((each) => each.ok === false)) for (const [log, heads] of known.heads) known.heads.set(log, heads.filter((head) => head.from !== file));
      }
      else if (kind === "words") accuse(file.name, await proofs.twoWords(tables, await proofs.read(file), known));
    } catch (error) { report(file.name, [failed(error)]); }
  }
  for await (const found of proofs.splits(known)) accuse(found.log, found);
  for await (const found of proofs.contradictions(known)) accuse(found.who, found);
  for (const [name, steps, root] of known.registries) report(name, [...steps, ...trusted(known, root)], true);
  page.dataset.done = String(Number(page.dataset.done ?? 0) + 1);
}

async function kindOf(file) {
  const start = await file.slice(0, 4096).text();
  if (start.startsWith('{"type":"header","format":"indai-fraud/')) return "fraud";
  if (start.startsWith('{"type":"header"')) return start.includes('"of":"registry"') ? "mirror" : "export";
  if (start.startsWith('{\n "format": "indai-two-words/')) return "words";
  if (/^(#|log |witness |quorum )/m.test(start) && !start.startsWith("{")) return "policy";
  return start.includes('"indai-receipt/v1"') ? "receipt" : "unknown";
}
const failed = (error) => step ? step(false, w("This file cannot be read"), error.said ?? w("It cannot be read: {why}", { why: error.message })) : { ok: false, title: { text: error.message, holes: {} }, detail: { text: "" }, values: {} };

function trusted(known, vkey) {
  if (!known.policy) return [step(null, w("Whether this is the right registry"), w("Compare its key with one you trust, or add the file network.policy: {key}", { key: vkey }))];
  const ok = known.policy.logs.some((each) => each.vkey === vkey);
  return [step(ok, w("It is the registry that network.policy names"), ok ? w("") : w("It is another one."), { key: vkey })];
}

async function gather(v, kind, file, known) {
  const add = (note) => known.heads.set(note.origin, [...(known.heads.get(note.origin) ?? []), { file: file.name, from: file, note }]);
  if (kind === "fraud") proofs.headsIn(await proofs.read(file)).forEach(add);
  if (kind !== "mirror" && kind !== "export") return;
  for await (const line of lines(file)) {
    const record = JSON.parse(line);
    if (/checkpoint$/.test(record.type)) add(v.readNote(record.note));
    else if (record.type !== "header") return;
  }
}
const accuse = (name, found) => report(name, found.steps, false, found.proved ? "fraud" : "");
async function* lines(file) {
  const reader = file.stream().pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) break;
    const parts = (rest + value).split("\n");
    rest = parts.pop();
    yield* parts;
  }
  if (rest) throw new Wrong(w("The file ends inside a line."));
}
// The lines of an export; the last one must name the digest of all before it.
async function* records(v, file) {
  let before = 0, ended = false;
  for await (const line of lines(file)) {
    if (ended) throw new Wrong(w("The file goes on after its end."));
    const record = JSON.parse(line);
    if (record.type === "end") {
      ended = true;
      if (v.hex(await v.sha256(new Uint8Array(await file.slice(0, before).arrayBuffer()))) !== record.sha256) throw new Wrong(w("The file is not as it was written: its digest is another one."));
    }
    before += bytes.encode(line).length + 1;
    yield record;
  }
  if (!ended) throw new Wrong(w("The file is cut off: its last line is missing."));
}
// A tree rebuilt from an export's leaves, held against its signed heads.
class Rebuilt {
  // `known`: the heads of this log in other files, whose sizes are looked at too.
  constructor(v, header, known, file) {
    this.file = file.name;
    this.seen = new Map();
    this.sizes = new Set((known.heads.get(header.log) ?? []).map((head) => head.note.size));
    this.v = v; this.header = header; this.heads = []; this.tree = new v.Tree(); this.wrong = []; this.announced = [];
  }
  head(note) { const read = this.v.readNote(note); this.heads.push(read); }
  async leaf(raw, index) {
    if (index !== this.tree.size) this.wrong.push(w("leaf {index} stands in the place of {place}", { index, place: this.tree.size }));
    await this.tree.add(await this.v.leafHash(raw));
    if (this.sizes.has(this.tree.size)) this.seen.set(this.tree.size, this.v.hex(await this.tree.root()));
    for (const head of this.heads) if (head.size === this.tree.size) {
      head.met = true;
      if (this.v.hex(await this.tree.root()) !== this.v.hex(head.root)) this.wrong.push(w("the head of size {size} has another root", head));
    }
  }
  // `others`: keys that mirrors show, with which a ledger's older heads may be signed.
  async steps(policy, others = []) {
    const steps = [], newest = this.heads.at(-1);
    let key = await this.v.readVkey(this.header.vkey), covered = 0;
    for (const head of this.heads) {
      // Another key counts once a head of the key before covers its announcement.
      const next = !head.signatures.some((line) => line.id === key.id) && this.announced.find((one) => one.old === key.vkey && one.index < covered);
      if (next) key = next.next;
      covered = head.size;
      const keys = head === newest ? [key] : [key, ...others.filter((one) => one.name === key.name)];
      const found = await this.v.headSteps(head, keys, head === newest ? policy : null);
      if (head === newest) steps.push(...found);
      else if (!found[0].ok) steps.push(found[0]);
      if (!head.met && head.size) this.wrong.push(w("there are no leaves for the head of size {size}", head));
    }
    const ok = !this.wrong.length && Boolean(newest) && this.tree.size === newest.size;
    this.newest = ok && steps.every((each) => each.ok !== false) ? newest : null;
    steps.unshift(step(ok, w("Its leaves ({leaves}) are those that its signed heads ({heads}) stand for", { leaves: this.tree.size, heads: this.heads.length }),
      this.wrong.length ? w("Not so: {what}", { what: this.wrong.slice(0, 3).map(tell).join("; ") }) : w("")));
    return steps;
  }
}

async function readMirror(v, file, known) {
  let header, tree, registry;
  for await (const record of records(v, file)) {
    if (record.type === "header") { header = record; tree = new Rebuilt(v, header, known, file); registry = new Registry(header.log); }
    else if (record.type === "checkpoint") tree.head(record.note);
    else if (record.type === "entry") {
      const raw = v.base64(record.entry);
      await tree.leaf(raw, record.index);
      await registry.add(raw, record.index);
    }
  }
  registry.learn(known);
  for (const [origin, keys] of registry.ledgers()) {
    if (keys.length > (known.ledgers.get(origin)?.length ?? 0)) known.ledgers.set(origin, keys);
    for (const { vkey } of keys) known.keys.push(await v.readVkey(vkey));
  }
  tree.announced = registry.announced;
  known.registries.push([file.name, [...await tree.steps(known.policy), ...chainSteps(registry)], header.vkey]);
  remember(tree, known);
}
// A tree under a head that its log has signed: heads of other files are held against it.
function remember(tree, known) {
  if (tree.newest) known.trees.set(tree.header.log, [...(known.trees.get(tree.header.log) ?? []), tree]);
}
// Whether an export's ledger is the one that the node's records name, and whether its heads keep to the order of its keys:
// what one signs after a later one has signed counts for nothing, so whoever stole a former key can't go on with it.
async function keySteps(v, tree, known) {
  const { header, heads } = tree, named = known.ledgers.get(header.log);
  const title = w("It is the ledger that the record of {node} names", { node: header.node });
  if (!named) return [step(known.ledgers.size ? false : null, title, known.ledgers.size ? w("The registry shows no such ledger.") : w("Add the registry's mirror to tell."), { key: header.vkey })];
  const ours = named.some((one) => one.vkey === header.vkey) && header.log.startsWith(`${header.node}/ledger/`);
  const alone = named.filter((one) => one.former && !one.announced);
  const steps = [step(ours, title, !ours ? w("It names another key for it.") : alone.length ? w("A former key has not announced the one after it: the node's rotation key alone has named that.") : w(""), { keys: named.map((one) => one.vkey) })];
  const keys = await Promise.all(named.map((one) => v.readVkey(one.vkey))), relapsed = [];
  let place = 0;
  for (const head of [...heads].sort((one, other) => (one.size < other.size ? -1 : one.size > other.size ? 1 : 0))) {
    const by = await Promise.all(keys.map(async (key) => (await v.noteSignature(head, key))?.ok)), later = by.findIndex((signed, at) => signed && at >= place);
    if (later >= 0) place = later;
    else if (by.some(Boolean)) relapsed.push(w("the head of size {size} is by a key that the ledger had given up before", { size: head.size }));
  }
  steps.push(step(!relapsed.length, w("Its heads keep to the order of its keys ({keys})", { keys: keys.length }), relapsed.length ? w("Not so: {what}", { what: relapsed.slice(0, 3).map(tell).join("; ") }) : w("")));
  return steps;
}
// What the replay of every operation has shown.
function chainSteps(registry) {
  const { wrong, maps, operations, announced } = registry, some = (found) => w("Not so: {what}", { what: found.slice(0, 3).map(tell).join("; ") });
  const steps = [
    step(!wrong.length, w("Each of its operations ({n}) follows from its handle's history, and is signed by a key that might"), wrong.length ? some(wrong) : w("Handles: {n}.", { n: registry.chains.size })),
    step(!maps.length, w("Each entry names the right root of the map from handles to their histories"), maps.length ? some(maps) : w(""), { root: registry.mapRoot }),
  ];
  steps[0].title.holes.n = operations;
  for (const one of announced) steps.push(step(true, w("The log's next key is announced under both keys"), w(""), { key: one.next.vkey }));
  return steps;
}

// The steps for one opened leaf: its content, who signed it, what it says.
async function contentSteps(v, tables, leaf, opening, raw, known) {
  const read = v.readLeaf(leaf), steps = [];
  if (!raw.length) return [step(null, w("What the leaf stands for"), w("The content is withheld or erased; the proof stands without it."), { kind: read.kind, time: read.time })];
  const opened = await v.opens(leaf, opening, raw), title = w("The content is what this leaf stands for");
  if (!opened) return [step(false, title, w("The content shown is another one."))];
  const found = v.envelope(raw);
  steps.push(step(opened, title, w("Recorded at {time}.", { time: read.time }), { kind: read.kind, id: v.hex(await v.sha256(found.pae)), bytes: raw.length }));
  const name = { commitment: "Commitment", event: "Event" }[/^application\/vnd\.ind\.([a-z-]+)\./.exec(found.type)?.[1]];
  if (!name) return steps;
  const said = v.shown(tables, name, found.payload);
  const signers = name === "Commitment" ? (said.parties ?? []).map((party) => ({ handle: party.handle, subject: party.subject_id })) : [{ handle: said.header?.sender, subject: said.header?.sender_subject }];
  steps.push(...await v.signatureSteps(found, known.people, signers, Date.parse(read.time)));
  steps.push({ ...step(true, name === "Commitment" ? w("What was agreed between {parties}", { parties: signers.map((each) => each.handle).join(", ") }) : w("What {signer} said of it later", { signer: signers[0].handle }), w(""), plain(said)), rows: readable(plain(said)) });
  return steps;
}
// What a contract says, for people: its fields in words, in the order of the contract. Whatever has no word here stands in the
// JSON beneath, which has every field.
const labels = () => ({
  title: w("About"), place: w("Place"), start_ms: w("Begins"), end_ms: w("Ends"), due_ms: w("Due"), again_ms: w("And again"), instead_of_ms: w("In place of the time"),
  cancel_until_ms: w("One side alone may call it off until"), free_until_ms: w("Free of charge to call off until"), field: w("Detail"), document: w("Document"),
  purpose_text: w("Purpose"), purpose: w("Purpose"), from_ms: w("From"), to_ms: w("Until"), size_bytes: w("Bytes"), question: w("Question"), answer: w("Answer"), topic: w("Topic"),
  uri: w("Source"), confidence_percent: w("Confidence, in percent"), payee: w("Paid to"), amount_minor: w("Amount"), mandate: w("Mandate"), item: w("Item"), quantity: w("How many"),
  price_minor: w("Price"), fee_minor: w("Fee for calling off late"), posted_minor: w("Amount"), subject: w("Subject"), text: w("Text"), category: w("Topic"), department: w("Department"), reference: w("Number"),
  kind: w("What happened"), reason: w("Why"), sentence: w("In their words"), outcome: w("Outcome"), time_ms: w("Time"), sender: w("From"), recipient: w("To"), issued_at_ms: w("Signed at"), parties: w("Parties"), mode: w("They may"),
});
const named = () => ({
  EVENT_KIND_FULFIL: w("kept"), EVENT_KIND_CANCEL: w("called off"), EVENT_KIND_SUPERSEDE: w("replaced"), EVENT_KIND_EXPIRE: w("ran out"), EVENT_KIND_OVERDUE: w("overdue"), EVENT_KIND_DISPUTE: w("disputed"),
  EVENT_KIND_POST: w("paid"), EVENT_KIND_VOID: w("not paid"), EVENT_KIND_OMIT: w("one time called off"), CONSENT_MODE_VIEW: w("look at it"), CONSENT_MODE_STORE: w("keep it"), CONSENT_MODE_QUERY: w("ask questions of it"), CONSENT_MODE_STREAM: w("follow it"),
});
function readable(said) {
  const rows = [], words = labels(), names = named(), language = document.documentElement.lang;
  const money = (minor, currency) => {
    try {
      const form = new Intl.NumberFormat(language, { style: "currency", currency });
      return form.format(Number(minor) / 10 ** form.resolvedOptions().maximumFractionDigits);
    } catch { return `${minor} ${currency ?? ""}`; }
  };
  const one = (key, value, of) => /_minor$/.test(key) ? money(value, of.currency) : /_ms$/.test(key) ? new Date(value).toLocaleString(language, { dateStyle: "full", timeStyle: "short", timeZone: "UTC" }) + " UTC" : value in names ? tell(names[value]) : String(value);
  const walk = (node) => {
    for (const [key, value] of Object.entries(node)) {
      if (key === "parties") rows.push([words[key], value.map((party) => party.handle).join(", ")]);
      else if (Array.isArray(value) ? typeof value[0] === "object" : typeof value === "object") [value].flat().forEach(walk);
      else if (words[key] && (!node.nonce || /^(sender|recipient|issued_at_ms)$/.test(key))) rows.push([words[key], [value].flat().map((each) => one(key, each, node)).join("; ")]);
    }
  };
  walk(said);
  return rows;
}
const plain = (value) => JSON.parse(JSON.stringify(value, (_, each) => (typeof each === "bigint" ? String(each) : each)));

async function receiptSteps(v, tables, receipt, known) {
  const [leaf, proof, cose, opening, raw] = PARTS.map((name) => v.base64(receipt[name]));
  const steps = await v.part(w("The content is what this leaf stands for"), () => contentSteps(v, tables, leaf, opening, raw, known));
  if (proof.length) steps.push(...await v.part(v.TREE, () => v.proofSteps(proof, leaf, known.keys, known.policy)));
  if (cose.length) steps.push(...await v.part(v.COSE, () => v.coseSteps(cose, leaf, known.keys)));
  if (!proof.length && !cose.length) throw new Wrong(w("The receipt holds no proof."));
  return steps;
}

// What cannot be read contradicts nothing: of a leaf its own steps say so.
const listen = async (hear) => { try { await hear(); } catch (error) { if (!(error instanceof Error)) throw error; } };
async function checkExport(v, tables, file, known) {
  let tree, more = 0;
  const shown = [], taken = new Map();
  for await (const record of records(v, file)) {
    if (record.type === "header") tree = new Rebuilt(v, record, known, file);
    else if (record.type === "checkpoint") tree.head(record.note);
    else if (/^(open-|erased-)?leaf$/.test(record.type)) {
      const leaf = v.base64(record.leaf);
      await tree.leaf(leaf, record.index);
      if (record.type !== "open-leaf") continue;
      const raw = v.base64(record.envelope);
      const deed = leaf[1] === 1, title = w("The content is what this leaf stands for"), steps = await v.part(title, () => contentSteps(v, tables, leaf, v.base64(record.opening), raw, known));
      const wrong = steps.some((each) => each.ok === false);
      if (!deed && !wrong) continue;
      if (deed) await listen(async () => { await proofs.succeeds(tables, taken, raw, record); await proofs.hear(tables, known.heard, raw); });
      if (shown.length < MOST_SHOWN || wrong) shown.push([tell(w("{file}, leaf {index}", { file: file.name, index: record.index })), steps]);
      else more += 1;
    } else if (record.type === "message") await listen(() => proofs.hear(tables, known.heard, v.base64(record.envelope)));
  }
  const [twice, once] = proofs.successionStep(taken);
  if (twice.length) once.detail = w("Not so: {what}", { what: twice.slice(0, 3).map(tell).join("; ") });
  report(file.name, [...await tree.steps(known.policy, known.keys), ...await keySteps(v, tree, known), once]);
  remember(tree, known);
  for (const [name, steps] of shown) report(name, steps, true);
  if (more) report(file.name, [step(true, w("{n} more are not shown", { n: more }), w("All of them were checked."))]);
}

function report(name, steps, folded = false, proved = "") {
  const verdict = proved ? proved : steps.some((each) => each.ok === false) ? "bad" : steps.some((each) => each.ok === null) ? "warn" : "good";
  const card = document.createElement("article");
  card.className = "card";
  card.dataset.verdict = verdict;
  const title = document.createElement("h2");
  title.append(name, " ");
  const tag = element("span", say(verdict), `tag ${proved ? "bad" : verdict}`);
  title.append(tag);
  const list = element("ol", "", "steps");
  for (const each of steps) list.append(item(each));
  if (folded && verdict === "good") {
    const fold = document.createElement("details"), summary = element("summary", "");
    summary.append(title);
    fold.append(summary, list);
    card.append(fold);
  } else card.append(title, list);
  page.querySelector("[data-results]")[proved ? "prepend" : "append"](card);  // who has cheated is said first
}
function item(each) {
  const line = document.createElement("li");
  line.className = each.ok === null ? "warn" : each.ok ? "good" : "bad";
  line.append(element("span", say(each.ok === null ? "open" : each.ok ? "holds" : "fails"), `tag ${line.className}`), " ", element("strong", tell(each.title)));
  const detail = tell(each.detail);
  if (detail) line.append(element("p", detail, "quiet"));
  if (each.rows) {
    const list = document.createElement("dl");
    for (const [label, value] of each.rows) {
      const held = element("dd", value);
      held.dir = "auto";  // a contract's own words run their own way
      list.append(element("dt", tell(label)), held);
    }
    line.append(list);
  }
  if (Object.keys(each.values).length) {
    const fold = document.createElement("details");
    fold.append(element("summary", say(each.rows ? "whole" : "values")), element("pre", JSON.stringify(each.values, null, 2)));
    line.append(fold);
  }
  return line;
}
function element(name, words, style = "") {
  const made = document.createElement(name);
  made.textContent = words;
  if (style) made.className = style;
  return made;
}
start().catch((error) => report("", [failed(error)]));
