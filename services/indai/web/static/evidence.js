// Who is proved to have cheated: files of evidence (`indai-fraud/v1`, `v2`, `indai-two-words/v1`), and what contradicts itself in the
// files that were chosen, checked from their bytes alone. Written apart from the node's own code, by the same rules: RFC 9162,
// 2.1.4 (consistency), two keys tied by their announcements or by their node's operations, words that exclude each other.
let Registry, Wrong, base64, envelope, fields, hex, join, noteSignature, part, readNote, readOperation, readVkey, sha, sha256, shown, signatureSteps, step, succession, text, w;
// What `verify.js` and `registry.js` have, handed over by the page.
export function use(verify, replay) {
  ({ Wrong, base64, envelope, fields, hex, join, noteSignature, part, readNote, readVkey, sha256, shown, signatureSteps, step, text, w } = verify);
  ({ Registry, readOperation, sha, succession } = replay);
}
const MOST = 8 * 1024 * 1024, WORDS = 64;
const changed = () => { throw new Wrong(w("This is no file of evidence, or it was changed.")); };
const ascii = (value, indent) => JSON.stringify(value, null, indent).replace(/[\u007f-\uffff]/g, (one) => "\\u" + one.charCodeAt(0).toString(16).padStart(4, "0"));
const isLedger = (log) => log.includes("/ledger/");

// What every accusation rests on: that the registry shows whose keys these are. `keys`: those of the log that is accused.
function rests(known, log, keys) {
  const title = w("The registry shows whose keys these are");
  if (log && !isLedger(log)) {
    if (!known.policy) return step(null, title, w("Add network.policy to tell whom to believe."));
    const ok = keys.every((key) => known.policy.logs.some((one) => one.vkey === key));
    return step(ok, title, ok ? w("") : w("It is signed with a key that nobody here trusts, so it says nothing."), { keys });
  }
  if (!known.registries.length) return step(null, title, w("Add the registry's mirror to tell."));
  if (known.registries.some(([, steps]) => steps.some((each) => each.ok === false))) return step(false, title, w("The registry's mirror does not hold: see there."));
  const named = (known.ledgers.get(log) ?? []).map((one) => one.vkey), ok = !log || keys.every((key) => named.includes(key));
  if (!ok) return step(false, title, w("It is signed with a key that nobody here trusts, so it says nothing."), { keys });
  const right = known.policy && known.registries.every(([, , root]) => known.policy.logs.some((one) => one.vkey === root));
  return step(known.policy ? right : null, title, known.policy ? right ? w("") : w("It is another one.") : w("Add network.policy to tell whom to believe."));
}
// Every step with what it comes to: `proved` is said of `who` where all of them hold.
function concluded(steps, who, proved) {
  const ok = steps.some((each) => each.ok === false) ? false : steps.some((each) => each.ok === null) ? null : true;
  const title = ok ? proved : ok === false ? w("It proves nothing against {who}", { who }) : w("Whether {who} has cheated cannot be told from these files", { who });
  return { steps: [...steps, step(ok, title)], proved: ok === true };
}
const histories = (log) => w("Proved: {log} has signed two histories", { log });

async function signed(note, key, file = "") {
  const seen = await noteSignature(note, key), ok = note.origin === key.name && seen?.ok === true && key.algorithm === 1;
  return step(ok, w("The log has signed the head of size {size}", { size: note.size }), ok ? file ? w("In {file}.", { file }) : w("") : w("Its signature does not verify."), { log: note.origin, root: hex(note.root), key: key.vkey });
}
// The roots of the smaller and the larger tree to which a consistency proof leads.
function climb(smaller, larger, hashes) {
  let node = smaller - 1, last = larger - 1;
  const half = (n) => Math.floor(n / 2), over = (left, right) => sha(join(Uint8Array.of(1), left, right));
  while (node % 2) { node = half(node); last = half(last); }
  let [old, ...rest] = hashes, made = old;
  if (!old) return [];
  for (const sibling of rest) {
    if (!last) return [];
    if (node % 2 || node === last) {
      old = over(sibling, old);
      made = over(sibling, made);
      while (!(node % 2) && node) { node = half(node); last = half(last); }
    } else made = over(made, sibling);
    node = half(node);
    last = half(last);
  }
  return last ? [] : [old, made];
}
function contradiction(small, large, prefix, known) {
  const title = w("The two heads exclude each other"), log = small.origin, differ = hex(small.root) !== hex(large.root);
  const roots = { [small.size]: hex(small.root), [large.size]: hex(large.root) };
  if (small.size === large.size) return step(differ && !prefix, title, differ ? w("One size, and two roots.") : w("They are one head."), roots);
  if (small.size > large.size || !small.size) return step(false, title, w("They are in the wrong order."), roots);
  if (prefix) {
    const hashes = prefix.hashes.map(base64), root = base64(prefix.root), n = BigInt(small.size), perfect = !(n & (n - 1n));
    const [old, made] = climb(small.size, large.size, perfect ? [root, ...hashes] : hashes);
    const leads = old && hex(old) === hex(root) && hex(made) === hex(large.root), ok = leads && hex(root) !== hex(small.root);
    return step(ok, title, ok ? w("The larger tree begins with another root than the smaller head says.") : leads ? w("The larger tree begins with the smaller one.") : w("The proof between them does not lead from the one to the other."), { ...roots, begins: hex(root) });
  }
  for (const tree of known.trees.get(log) ?? []) {
    const of = [small, large].map((head) => tree.seen.get(head.size) && tree.seen.get(head.size) === hex(head.root));
    if (of.includes(false)) return step(true, title, w("One of them is not of the tree in {file}, which the log has signed too.", { file: tree.file }), roots);
    if (of.every(Boolean)) return step(false, title, w("Both are of the tree in {file}.", { file: tree.file }), roots);
  }
  return step(null, title, w("Only an export of this log can tell: add it."), roots);
}
// That the one key of a log follows the other: both have signed it, step by step, or the node's operations name both.
async function tied(log, later, ties) {
  const title = w("Both keys are those of one log, the one after the other");
  return (await part(title, async () => {
    const kinds = new Set(ties.map((each) => each.type));
    let ok = kinds.size === 1;
    if (kinds.has("announcement")) {
      let reached = log.vkey;
      for (const each of ties) {
        const said = await succession(text.encode(each.note));
        ok &&= said.old === reached;
        reached = said.next.vkey;
      }
      return [step(ok && reached === later.vkey, title, w("Each key has announced the next, under both."))];
    }
    let replay = null;
    const named = [], node = log.name.replace(/\/ledger\/[0-9]{4}$/, "");
    for (const each of ties) {
      const one = await readOperation(base64(each.operation));
      replay ??= new Registry(one.registry);
      if (one.handle !== node || !Number.isSafeInteger(each.time_ms)) ok = false;
      const { links } = await replay.operation(one, each.time_ms), { state } = links.at(-1);
      if (state?.vkey) named.push(state.vkey);
    }
    const at = named.indexOf(log.vkey);
    return [step(ok && at >= 0 && named.indexOf(later.vkey, at) >= 0, title, w("The operations on {node}, each signed by its rotation key, name both.", { node }))];
  }))[0];
}
function parsed(content) {
  try {
    const lines = content.split("\n"), [header, one, other, ...rest] = lines.slice(0, -1).map((line) => JSON.parse(line));
    const { format, log, vkey, later_vkey } = header, second = format === "indai-fraud/v2", prefix = rest[0]?.type === "prefix" ? rest.shift() : null;
    const again = [{ type: "header", format, log, vkey, ...(second ? { later_vkey } : {}) }, ...[one, other].map(({ note }) => ({ type: "note", note }))];
    if (prefix) again.push({ type: "prefix", root: prefix.root, hashes: prefix.hashes });
    for (const { type, note, time_ms, operation } of rest) again.push(type === "announcement" ? { type, note } : { type: "operation", time_ms, operation });
    if (again.map((each) => ascii(each) + "\n").join("") !== content || (!second && (format !== "indai-fraud/v1" || rest.length))) changed();
    return { log, vkey, later: second ? later_vkey : "", notes: [one.note, other.note], prefix, ties: rest };
  } catch { return changed(); }
}
export async function read(file) {
  if (file.size > MOST) changed();
  return file.text();
}
// The heads in a file of evidence: they count beside those of exports, and these beside them.
export const headsIn = (content) => parsed(content).notes.map(readNote);
export async function fraudSteps(content, known) {
  const file = parsed(content), log = await readVkey(file.vkey), later = file.later ? await readVkey(file.later) : null;
  if (file.log !== log.name || (later && later.name !== log.name)) changed();
  const notes = file.notes.map(readNote), steps = [], by = [];
  for (const note of notes) {
    const key = later && note.signatures.some((line) => line.name === later.name && line.id === later.id) ? later : log;
    by.push(key.vkey);
    steps.push(await signed(note, key));
  }
  let keys = [log.vkey];
  if (later) {
    const tie = await tied(log, later, file.ties);
    steps.push(by[0] === by[1] ? step(false, tie.title, w("Both heads are by one of them.")) : tie);
    // A registry's next key is believed as its former one has announced it.
    if (isLedger(log.name) || file.ties[0]?.type !== "announcement") keys.push(later.vkey);
  }
  steps.push(...await part(w("The two heads exclude each other"), async () => [contradiction(...notes, file.prefix, known)]), rests(known, log.name, keys));
  return settled(known, log.name, concluded(steps, log.name, histories(log.name)));
}
// What a file has proved is not said once more of the exports beside it.
function settled(known, of, found) {
  if (found.proved) known.proved.add(of);
  return found;
}

// Heads of one log in all the files that exclude each other. `known.heads`: {file, note} by log; `known.trees`: by log the roots that
// rebuilt trees have at the sizes of these heads.
export async function* splits(known) {
  for (const [log, heads] of known.heads) {
    if (known.proved.has(log)) continue;
    const named = (isLedger(log) ? known.ledgers.get(log) ?? [] : known.policy?.logs.filter((key) => key.name === log) ?? []).map((one) => one.vkey);
    const keys = await Promise.all(named.map(readVkey)), first = new Map();
    const by = async ({ note, file }) => {
      for (const key of keys) if ((await noteSignature(note, key))?.ok) return signed(note, key, file);
      return null;
    };
    const pair = async (head, other, differ) => {
      const steps = [await by(head), await by(other)];
      if (steps.includes(null)) return null;  // a head that the log has not signed accuses nobody
      return { log, ...concluded([...steps, differ, rests(known, log, steps.map((each) => each.values.key))], log, histories(log)) };
    };
    let found = null;
    for (const head of heads) {
      const root = hex(head.note.root), same = first.get(head.note.size);
      const tree = (known.trees.get(log) ?? []).find((each) => each.seen.has(head.note.size) && each.seen.get(head.note.size) !== root);
      if (same && hex(same.note.root) !== root) found = (await pair(same, head, contradiction(same.note, head.note, null, known))) ?? found;
      else if (tree) found = (await pair(head, { note: tree.newest, file: tree.file }, step(true, w("The two heads exclude each other"), w("The leaves in {file} make another root at size {size}.", { file: tree.file, size: head.note.size })))) ?? found;
      if (!same && await by(head)) first.set(head.note.size, head);
      if (found?.proved) break;
    }
    if (found) yield found;
  }
}

// --- two words of one party on one commitment ---
async function word(tables, raw) {
  const found = envelope(raw), kind = /^application\/vnd\.ind\.(move|receipt|event)\.v1\+protobuf$/.exec(found.type)?.[1];
  if (!kind) return null;
  const said = fields(found.payload), one = (number) => said.get(number)?.[0], bytes = (number) => (one(number) instanceof Uint8Array ? hex(one(number)) : "");
  if (kind === "move" && one(13)) return word(tables, fields(one(13)).get(1)[0]);  // goes to several, byte for byte
  const header = shown(tables, "Header", one(1)), mid = hex(await sha256(found.pae)), issued = Date.parse(header.issued_at_ms);
  if (!Number.isFinite(issued)) return null;
  const made = { raw, found, mid, who: header.sender, subject: header.sender_subject, key: header.key_id, issued };
  if (kind === "event") return Number(one(4) ?? 0) ? { ...made, slot: `event ${one(4)}`, about: bytes(2), body: mid, words: (tables.EventKind.enum[Number(one(3))] ?? "").replace("EVENT_KIND_", "") } : null;
  if (kind === "receipt") return { ...made, slot: "receipt", about: bytes(2), several: Boolean(bytes(6)), body: [bytes(2), bytes(3), one(4) ?? 0n, one(5) ?? 0n, bytes(6)].join(), words: "RECEIPT" };
  const slot = one(5) ? "reject" : one(6) ? "withdraw" : "";
  return slot ? { ...made, slot, about: header.in_reply_to ?? "", body: mid, words: slot.toUpperCase() } : null;
}
function exclude(one, other) {
  if (one.who !== other.who || one.subject !== other.subject || one.about !== other.about || !one.about) return false;
  if (one.slot === other.slot) return /^(event|receipt)/.test(one.slot) && one.body !== other.body;
  const [receipt, refusal] = one.slot === "receipt" ? [one, other] : [other, one];
  return receipt.slot === "receipt" && refusal.slot === (receipt.several ? "withdraw" : "reject");
}
async function wordSteps(known, one, other) {
  const steps = [];
  for (const each of [one, other]) {
    const [made, ...more] = await signatureSteps(each.found, known.people, [{ handle: each.who, subject: each.subject }], each.issued);
    const ok = made.ok && each.found.signatures[0].keyid !== each.key ? false : made.ok;
    steps.push(step(ok, w("{who} has signed a {word}", { who: each.who, word: each.words }), made.detail, { about: each.about, mid: each.mid, key: each.key, time: new Date(each.issued).toISOString() }), ...more);
  }
  steps.push(step(exclude(one, other), w("The two words exclude each other"), w("Both are about the commitment {mid}.", { mid: one.about })), rests(known, ""));
  return concluded(steps, one.who, w("Proved: {who} has signed two different words on one commitment", { who: one.who }));
}
export async function twoWords(tables, content, known) {
  let file;
  try {
    file = JSON.parse(content);
    if (ascii({ format: "indai-two-words/v1", one: file.one, other: file.other }, 1) + "\n" !== content) changed();
  } catch { changed(); }
  const [one, other] = await Promise.all([file.one, file.other].map((raw) => word(tables, base64(raw))));
  if (!one || !other) throw new Wrong(w("One of the two is no RECEIPT, refusal or event."));
  return settled(known, `${one.who} ${one.about}`, await wordSteps(known, one, other));
}
// Keeps a message of an export that may contradict another.
export async function hear(tables, heard, raw) {
  const said = await word(tables, raw);
  if (!said) return;
  const key = `${said.who} ${said.subject} ${said.about}`, others = heard.get(key) ?? heard.set(key, []).get(key), bytes = hex(raw);
  if (others.length < WORDS && !others.some((each) => hex(each.raw) === bytes)) others.push(said);
}
// Each commitment on which somebody has signed two different words: a pair that is proved, else one that is not.
export async function* contradictions(known) {
  for (const words of known.heard.values()) {
    let found = null;
    for (const [at, one] of words.entries()) for (const other of words.slice(at + 1)) {
      if (!found?.proved && exclude(one, other) && !known.proved.has(`${one.who} ${one.about}`)) found = { who: one.who, ...await wordSteps(known, one, other) };
    }
    if (found) yield found;
  }
}

// --- what takes another's place (LIF-25, LIF-26) ---
export async function succeeds(tables, taken, raw, record) {
  const found = envelope(raw);
  if (!found.type.startsWith("application/vnd.ind.commitment.")) return;
  const said = shown(tables, "Commitment", found.payload), parties = (said.parties ?? []).map((each) => each.subject_id);
  if (!said.supersedes || found.signatures.length !== parties.length) return;
  const key = `${record.owner} ${said.supersedes} ${parties.sort().join()}`, mid = hex(await sha256(found.pae)), others = taken.get(key) ?? taken.set(key, []).get(key);
  if (!others.some((each) => each.mid === mid)) others.push({ mid, index: record.index, owner: record.owner, time: said.meet?.instead_of_ms ?? "" });
}
// All of it takes the times that are left; what was moved by itself before stands beside it.
export function successionStep(taken) {
  const wrong = [];
  for (const others of taken.values()) {
    const places = new Map();
    for (const each of others) {
      const first = places.get("") ?? places.get(each.time);
      if (first !== undefined) wrong.push(w("leaf {index}: {owner} had put another in that place, leaf {first}", { index: each.index, owner: each.owner, first }));
      else places.set(each.time, each.index);
    }
  }
  return [wrong, step(!wrong.length, w("Nobody has put two commitments in the place of one"))];
}
