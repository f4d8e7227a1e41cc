// Checks receipts and exports in the browser, from their bytes alone. Nothing is sent anywhere.
//
// Formats: C2SP signed-note, tlog-checkpoint, tlog-proof and tlog-cosignature; RFC 9162 (Merkle tree), RFC 9942 and
// RFC 9052 (COSE receipt), DSSE v1 (envelopes). Written apart from the node's own code, so that the two are witnesses
// of each other. Every check gives a step: {ok: true | false | null, title, detail, values}; null is "cannot be told".
// Words are {text, holes}, in English: the page says them in its visitor's language.

export const w = (text, holes = {}) => ({ text, holes });
export const NOTHING = w("");
export class Wrong extends Error {
  constructor(said) { super(said.text); this.said = said; }
}
const wrong = (text, holes) => { throw new Wrong(w(text, holes)); };
const malformed = (why) => wrong("It is not as its format says: {why}.", { why });
export const step = (ok, title, detail = NOTHING, values = {}) => ({ ok, title, detail, values });
// The steps of a part of a file. One that cannot be read is a step that fails, under the name of what it ought to show.
export async function part(title, steps) {
  try { return await steps(); } catch (error) { return [step(false, title, error.said ?? w("It cannot be read: {why}", { why: error.message }))]; }
}

export const text = new TextEncoder();
const words = new TextDecoder("utf-8", { fatal: true });
export const hex = (bytes) => Array.from(bytes, (b) => b.toString(16).padStart(2, "0")).join("");
export const join = (...parts) => {
  const whole = new Uint8Array(parts.reduce((n, p) => n + p.length, 0));
  let at = 0;
  for (const part of parts) { whole.set(part, at); at += part.length; }
  return whole;
};
const same = (a, b) => a.length === b.length && a.every((byte, at) => byte === b[at]);
export const sha256 = async (bytes) => new Uint8Array(await crypto.subtle.digest("SHA-256", bytes));
export function base64(value) {
  if (typeof value !== "string") malformed("a value is no text");
  const raw = Uint8Array.from(atob(value), (c) => c.charCodeAt(0));
  if (encode64(raw) !== value) malformed("a value is no strict base64");
  return raw;
}
export function encode64(bytes) {
  let made = "";
  for (let at = 0; at < bytes.length; at += 8190) made += btoa(String.fromCharCode(...bytes.subarray(at, at + 8190)));
  return made;
}
export const u64 = (bytes) => bytes.reduce((n, b) => n * 256n + BigInt(b), 0n);

export async function ed25519(publicKey, message, signature) {
  if (publicKey.length !== 32 || signature.length !== 64) return false;
  const key = await crypto.subtle.importKey("raw", publicKey, { name: "Ed25519" }, false, ["verify"]);
  return crypto.subtle.verify({ name: "Ed25519" }, key, signature, message);
}
// Whether this browser can check such signatures at all: RFC 8032, section 7.1, test 1.
export async function able() {
  const [key, sig] = ["d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a", "e5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e065224901555fb8821590a33bacc61e39701cf9b46bd25bf5f0595bbe24655141438e7a100b"].map((digits) => Uint8Array.from(digits.match(/../g), (pair) => parseInt(pair, 16)));
  try { return await ed25519(key, new Uint8Array(), sig); } catch { return false; }
}
export async function keyId(publicKey) {
  const digest = await sha256(join(text.encode("ind.ai/key/v1\n"), Uint8Array.of(1), publicKey));
  return "ed25519:" + encode64(digest).replaceAll("+", "-").replaceAll("/", "_").replace(/=+$/, "");
}

// --- protocol buffers: enough to read what is shown; the signature is over the bytes themselves ---
export function fields(bytes) {
  const found = new Map();
  let at = 0;
  const varint = () => {
    let value = 0n, shift = 0n;
    for (;;) {
      if (at >= bytes.length || shift > 63n) malformed("a message ends inside a number");
      const byte = bytes[at++];
      value |= BigInt(byte & 127) << shift;
      if (byte < 128) return value;
      shift += 7n;
    }
  };
  while (at < bytes.length) {
    const tag = varint(), number = Number(tag >> 3n), wire = Number(tag & 7n);
    let value;
    if (wire === 0) value = varint();
    else if (wire === 2) { const size = Number(varint()); if (at + size > bytes.length) malformed("a message ends inside a field"); value = bytes.subarray(at, at + size); at += size; }
    else if (wire === 1 || wire === 5) { const size = wire === 1 ? 8 : 4; value = bytes.subarray(at, at + size); at += size; }
    else malformed("a message has an unknown kind of field");
    if (!found.has(number)) found.set(number, []);
    found.get(number).push(value);
  }
  return found;
}
const one = (found, number) => found.get(number)?.[0];
// Plain values by the field tables of the contract (name of a message -> number -> [name, type]).
export function shown(tables, name, bytes) {
  const made = {};
  for (const [number, values] of fields(bytes)) {
    const [label, type, repeated] = tables[name]?.[number] ?? [`field ${number}`, "bytes", false];
    const read = values.map((value) => {
      if (value instanceof Uint8Array) return type === "string" ? words.decode(value) : type in tables && !tables[type].enum ? shown(tables, type, value) : hex(value);
      if (type in tables && tables[type].enum) return tables[type].enum[Number(value)] ?? String(value);
      if (type === "bool") return value !== 0n;
      if (/_ms$/.test(label)) return new Date(Number(value)).toISOString();
      return type.startsWith("int") && value >= 1n << 63n ? value - (1n << 64n) : value;
    });
    made[label] = repeated ? read : read[0];
  }
  return made;
}
export function envelope(raw) {
  const found = fields(raw);
  const payload = one(found, 1), type = one(found, 2);
  if (!payload || !type) malformed("this is no envelope");
  const media = words.decode(type);
  const pae = join(text.encode(`DSSEv1 ${type.length} ${media} ${payload.length} `), payload);
  const signatures = (found.get(3) ?? []).map((part) => { const inner = fields(part); return { sig: one(inner, 1) ?? new Uint8Array(), keyid: words.decode(one(inner, 2) ?? new Uint8Array()) }; });
  return { payload, type: media, pae, signatures };
}

// --- Merkle tree (RFC 9162, 2.1) ---
export const leafHash = (entry) => sha256(join(Uint8Array.of(0), entry));
const nodeHash = (left, right) => sha256(join(Uint8Array.of(1), left, right));
export async function rootFromPath(leaf, index, size, path) {
  let node = BigInt(index), last = BigInt(size) - 1n, hash = leaf;
  if (node > last || node < 0n) malformed("there is no such leaf in this tree");
  for (const sibling of path) {
    if (last === 0n) malformed("the path is too long");
    if (node & 1n || node === last) {
      hash = await nodeHash(sibling, hash);
      while (!(node & 1n) && node) { node >>= 1n; last >>= 1n; }
    } else hash = await nodeHash(hash, sibling);
    node >>= 1n; last >>= 1n;
  }
  if (last) malformed("the path is too short");
  return hash;
}
// The tree's right edge: full subtrees by height, so that any number of leaves needs little memory.
export class Tree {
  constructor() { this.size = 0; this.edge = []; }
  async add(hash) {
    let height = 0;
    for (let size = this.size; size % 2 === 1; size = Math.floor(size / 2)) hash = await nodeHash(this.edge[height++], hash);
    this.edge[height] = hash;
    this.size += 1;
  }
  async root() {
    let hash = null, size = this.size;
    for (let height = 0; size; height++, size = Math.floor(size / 2)) {
      if (size % 2 === 1) hash = hash ? await nodeHash(this.edge[height], hash) : this.edge[height];
    }
    return hash ?? sha256(new Uint8Array());
  }
}

// --- notes, checkpoints and their signatures (C2SP) ---
export async function readVkey(vkey) {
  const match = /^([^+]+)\+([0-9a-f]{8})\+([A-Za-z0-9+/=]+)$/.exec(vkey.trim());
  if (!match) malformed("this is no verifier key");
  const raw = base64(match[3]), id = hex((await sha256(join(text.encode(match[1] + "\n"), raw))).subarray(0, 4));
  if (id !== match[2]) malformed("this verifier key's hash is wrong");
  return { name: match[1], id, algorithm: raw[0], key: raw.subarray(1), vkey: vkey.trim() };
}
export function readNote(note) {
  const split = note.indexOf("\n\n");
  if (split < 0) malformed("the head is no signed note");
  const body = note.slice(0, split + 1);
  const signatures = note.slice(split + 2).split("\n").filter(Boolean).map((line) => {
    const match = /^\u2014 ([^ ]+) ([A-Za-z0-9+/=]+)$/.exec(line);
    if (!match) malformed("the head has a line that is no signature");
    const raw = base64(match[2]);
    return { name: match[1], id: hex(raw.subarray(0, 4)), sig: raw.subarray(4) };
  });
  const [origin, size, root] = body.split("\n");
  if (!/^(0|[1-9][0-9]*)$/.test(size ?? "")) malformed("the head has no size");
  return { body, origin, size: Number(size), root: base64(root), signatures };
}
export async function noteSignature(note, vkey) {
  const line = note.signatures.find((each) => each.name === vkey.name && each.id === vkey.id);
  if (!line) return null;
  if (vkey.algorithm === 1) return { ok: await ed25519(vkey.key, text.encode(note.body), line.sig) };
  if (vkey.algorithm !== 4) return { ok: null };
  const time = u64(line.sig.subarray(0, 8));
  const message = text.encode(`cosignature/v1\ntime ${time}\n${note.body}`);
  return { ok: await ed25519(vkey.key, message, line.sig.subarray(8)), time: new Date(Number(time) * 1000).toISOString() };
}
// Whom to believe (C2SP tlog-policy): logs, witnesses and groups by their name in the file, and the quorum's name.
export async function readPolicy(source) {
  const policy = { logs: [], witnesses: new Map(), groups: new Map(), quorum: "" };
  for (const line of source.split("\n")) {
    const [what, ...rest] = line.split(/[ \t]+/).filter(Boolean);
    const known = (name) => policy.witnesses.has(name) || policy.groups.has(name), free = (name) => name !== "none" && !known(name);
    if (!what || what.startsWith("#")) continue;
    if (what === "log" && rest.length) policy.logs.push(await readVkey(rest[0]));
    else if (what === "witness" && rest.length > 1 && free(rest[0])) policy.witnesses.set(rest[0], await readVkey(rest[1]));
    else if (what === "group" && rest.length > 2 && free(rest[0])) {
      const members = rest.slice(2), least = { any: 1, all: members.length }[rest[1]] ?? Number(rest[1]);
      if (!(least >= 1 && least <= members.length) || !members.every(known)) wrong("This policy has a group that cannot be: {name}", { name: rest[0] });
      policy.groups.set(rest[0], { least, members });
    } else if (what === "quorum" && rest.length === 1 && (rest[0] === "none" || known(rest[0])) && !policy.quorum) policy.quorum = rest[0];
    else wrong("This policy has a line that cannot be read: {line}", { line: line.slice(0, 80) });
  }
  if (!policy.quorum) wrong("This policy names no quorum.");
  return policy;
}
// Whether a head is signed by its log, and by which witnesses: those of `policy` one by one where it names the log,
// and then whether they are the quorum that it asks for.
export async function headSteps(note, keys, policy) {
  const steps = [], log = keys.filter((key) => key.name === note.origin);
  let ok = log.length ? false : null;
  for (const key of log) if ((await noteSignature(note, key))?.ok) ok = true;
  steps.push(step(ok, w("The log has signed this head"),
    ok ? w("The signature verifies under the log's key.") : ok === null ? w("No key of this log is known here: add the registry's mirror.") : w("No key of this log has signed it."),
    { log: note.origin, size: note.size, root: hex(note.root) }));
  const governed = policy?.logs.some((key) => key.name === note.origin), cosigned = new Set();
  for (const [name, key] of policy?.witnesses ?? []) {
    const seen = await noteSignature(note, key);
    if (seen?.ok) cosigned.add(name);
    if (seen) steps.push(step(seen.ok, w("The witness {name} has cosigned it", { name: key.name }), seen.ok ? w("At {time}.", { time: seen.time }) : seen.ok === null ? w("This browser cannot check its kind of signature.") : w("Its signature does not verify."), { key: key.vkey }));
    else if (governed) steps.push(step(null, w("The witness {name} has cosigned it", { name: key.name }), w("It has not: this head lacks its signature."), { key: key.vkey }));
  }
  if (governed && policy.quorum !== "none") {
    const reached = (name) => policy.groups.has(name) ? policy.groups.get(name).members.filter(reached).length >= policy.groups.get(name).least : cosigned.has(name);
    const enough = reached(policy.quorum), count = { n: cosigned.size, all: policy.witnesses.size };
    steps.push(step(enough, w("Enough witnesses have seen it"), enough ? w("{n} of {all} witnesses have cosigned, as many as network.policy asks for.", count) : w("{n} of {all} witnesses have cosigned, fewer than network.policy asks for.", count), { quorum: policy.quorum }));
    // One that is missing keeps nothing open where there are enough.
    if (enough) for (const each of steps) if (each.ok === null && each.values.key) each.ok = true, each.title = w("The witness {name} was not needed", { name: each.title.holes.name });
  }
  const known = new Set([...log, ...(policy?.witnesses.values() ?? [])].map((key) => key.id));
  const strangers = note.signatures.filter((line) => !known.has(line.id)).map((line) => line.name);
  const names = strangers.join(", ");
  // Under a policy that names the log they count for nothing, and nothing is open.
  if (names) steps.push(governed ? step(true, w("Other signatures are not counted"), w("By {names}.", { names })) : step(null, w("Signatures of keys that are not known here"), w("By {names}.", { names })));
  return steps;
}

// --- leaves ---
const KINDS = { 1: "commitment or event", 3: "policy decision", 4: "policy version" };
export function readLeaf(leaf) {
  if (leaf.length !== 42 || leaf[0] !== 1) malformed("this is no ledger leaf");
  return { kind: KINDS[leaf[1]] ?? `kind ${leaf[1]}`, time: new Date(Number(u64(leaf.subarray(2, 10)))).toISOString(), mac: leaf.subarray(10) };
}
export async function opens(leaf, opening, raw) {
  if (opening.length !== 32) return false;
  const key = await crypto.subtle.importKey("raw", opening, { name: "HMAC", hash: "SHA-256" }, false, ["verify"]);
  return crypto.subtle.verify("HMAC", key, leaf.subarray(10), join(text.encode("ind.ai/leaf/v1\n"), raw));
}

// --- CBOR, as far as a COSE receipt needs it ---
function cbor(bytes) {
  let at = 0;
  const item = () => {
    const first = bytes[at++], major = first >> 5, small = first & 31;
    let size = BigInt(small);
    if (small >= 24 && small <= 27) { const n = 1 << (small - 24); size = u64(bytes.subarray(at, at + n)); at += n; }
    else if (small > 27) malformed("an item of no fixed length");
    const count = Number(size);
    switch (major) {
      case 0: return count;
      case 1: return -1 - count;
      case 2: case 3: { const raw = bytes.subarray(at, at + count); if (raw.length !== count) malformed("it ends too soon"); at += count; return major === 2 ? raw : words.decode(raw); }
      case 4: return Array.from({ length: count }, item);
      case 5: return new Map(Array.from({ length: count }, () => [item(), item()]));
      case 6: return { tag: count, value: item() };
      default: if (first === 0xf6) return null; malformed("an unknown item");
    }
  };
  const value = item();
  if (at !== bytes.length) malformed("it goes on after its end");
  return value;
}
const head = (major, n) => n < 24 ? Uint8Array.of(major << 5 | n) : n < 256 ? Uint8Array.of(major << 5 | 24, n) : Uint8Array.of(major << 5 | 25, n >> 8, n & 255);
const bstr = (raw) => join(head(2, raw.length), raw);

export const COSE = w("The second receipt (COSE, RFC 9942) says the same"), TREE = w("The ledger's tree holds this leaf");
export async function coseSteps(raw, leaf, keys) {
  const { tag, value } = cbor(raw);
  if (tag !== 18 || value.length !== 4 || value[2] !== null) malformed("this is no COSE receipt");
  const [bound, open, , signature] = value, header = cbor(bound);
  const log = header.get(15)?.get(1)?.replace(/^https:\/\//, "") ?? "";
  if (header.get(1) !== -8 || header.get(395) !== 1) malformed("its algorithms are not EdDSA and RFC 9162 with SHA-256");
  const [size, index, path] = cbor(open.get(396).get(-1)[0]);
  const root = await rootFromPath(await leafHash(leaf), index, size, path);
  const message = join(head(4, 4), head(3, 10), text.encode("Signature1"), bstr(bound), bstr(new Uint8Array()), bstr(root));
  const mine = keys.filter((key) => key.name === log && key.algorithm === 1);
  let ok = mine.length ? false : null;
  for (const key of mine) if (await ed25519(key.key, message, signature)) ok = true;
  return [step(ok, COSE,
    ok ? w("The log has signed the root that the path leads to.") : ok === null ? w("No key of this log is known here: add the registry's mirror.") : w("The log has not signed the root that the path leads to."),
    { log, index, size, root: hex(root) })];
}

export async function proofSteps(raw, leaf, keys, policy) {
  const proof = words.decode(raw), split = proof.indexOf("\n\n"), lines = proof.slice(0, split).split("\n");
  if (lines.shift() !== "c2sp.org/tlog-proof@v1" || split < 0) malformed("this is no tlog-proof");
  if (lines[0]?.startsWith("extra ")) lines.shift();
  const index = /^index (0|[1-9][0-9]*)$/.exec(lines.shift() ?? "")?.[1] ?? malformed("the proof names no leaf");
  const note = readNote(proof.slice(split + 2)), path = lines.map(base64);
  const root = await rootFromPath(await leafHash(leaf), index, note.size, path);
  const ok = same(root, note.root);
  return [step(ok, TREE, ok ? w("The path of {n} hashes leads from leaf {index} to the root.", { n: path.length, index }) : w("The path does not lead to the root of the head."),
    { leaf: hex(leaf), index, root: hex(root), path: path.map(hex) }), ...(await headSteps(note, keys, policy))];
}

// Who signed, one after the other: `signers` are {handle, subject}, and each must have signed. `people`: key id -> {key, whose},
// by "handle subject" the life of the key there: {from, until, revoked, published (ms, 0 for open), barred}, from a registry's
// mirror; `time`: of the leaf, ms.
export async function signatureSteps(found, people, signers, time) {
  const steps = [];
  for (const [at, { handle: signer, subject }] of signers.entries()) {
    const line = found.signatures[at], known = line && people.get(line.keyid), life = known?.whose.get(`${signer} ${subject}`);
    let ok = false, detail = w("This signature is missing.");
    if (line && !known) { ok = null; detail = w("The key is not known here: add the registry's mirror."); }
    else if (known && !life) detail = w("The registry shows this key for {others}, not for {signer}.", { others: [...known.whose.keys()].join(", "), signer: `${signer} ${subject}` });
    else if (life) {
      const late = life.revoked && time >= life.revoked, outside = time < life.from || (life.until && time >= life.until);
      if (!(await ed25519(known.key, found.pae, line.sig))) detail = w("The signature does not verify.");
      else if (life.barred) detail = w("A recovery has nullified this key.");
      else if (time < life.published - 120_000) detail = w("The key was not published yet.");  // two honest clocks differ by less
      else if (late) detail = w("The key was revoked at {time}, before this.", { time: new Date(life.revoked).toISOString() });
      else if (outside) detail = w("The key was not valid at this time.");
      else { ok = true; detail = w("The signature verifies, and the registry shows this key for them at that time."); }
    }
    steps.push(step(ok, w("Signed by {signer}", { signer }), detail, line ? { key: line.keyid } : {}));
  }
  if (found.signatures.length > signers.length) steps.push(step(false, w("No signature too many"), w("There are more signatures than parties.")));
  return steps;
}
