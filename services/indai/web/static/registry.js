// Replays a registry's mirror in the browser, operation by operation: who may change a handle is decided by the state before
// the change, never by the registry. Written apart from the node's own code (`indai.protocol.operations`), by the same
// rules: numbers and `prev`, rotation keys, recovery within 72 hours, keys that never leave the list, the map's root.
let Wrong, base64, ed25519, envelope, fields, hex, join, readVkey, sha256, text, u64, w;
// What `verify.js` has, handed over by the page: an address with a hash in it cannot be imported by a name.
export function use(verify) {
  ({ Wrong, base64, ed25519, envelope, fields, hex, join, readVkey, sha256, text, u64, w } = verify);
  EMPTY = [sha(said("ind.ai/map-empty/v1\n"))];
  for (let depth = 0; depth < 256; depth++) EMPTY.unshift(sha(join(NODE, EMPTY[0], EMPTY[0])));
}

const CREATE = 1, REVOKE = 3, TOMBSTONE = 4, DELEGATE = 5, RECOVER = 6, TRANSFER = 7;
const SKEW = 120_000, RECOVERY = 72 * 3_600_000, HELD = 365 * 86_400_000, BACKDATED = 86_400_000, MOST = 400, SPARE = 16;
const refuse = (said, holes) => { throw new Wrong(w(said, holes)); };
const bad = () => refuse("its form is not that of an operation");
const words = new TextDecoder("utf-8", { fatal: true });

// --- SHA-256 (FIPS 180-4) in one go: the map needs hundreds of small hashes for an entry, and the browser's own answer late ---
const K = new Int32Array(64), START = new Int32Array(8), W = new Int32Array(64);
for (let n = 2, found = 0; found < 64; n++) {
  let prime = true;
  for (let by = 2; by * by <= n; by++) if (n % by === 0) prime = false;
  if (!prime) continue;
  if (found < 8) START[found] = (Math.sqrt(n) % 1) * 2 ** 32;
  K[found++] = (Math.cbrt(n) % 1) * 2 ** 32;
}
export function sha(bytes) {
  const size = bytes.length, padded = new Uint8Array((size + 72) & ~63), view = new DataView(padded.buffer), H = START.slice();
  padded.set(bytes);
  padded[size] = 128;
  view.setUint32(padded.length - 8, size / 2 ** 29);
  view.setUint32(padded.length - 4, size << 3);
  for (let at = 0; at < padded.length; at += 64) {
    for (let t = 0; t < 16; t++) W[t] = view.getInt32(at + 4 * t);
    for (let t = 16; t < 64; t++) {
      const x = W[t - 15], y = W[t - 2];
      W[t] = W[t - 16] + W[t - 7] + ((x >>> 7 | x << 25) ^ (x >>> 18 | x << 14) ^ x >>> 3) + ((y >>> 17 | y << 15) ^ (y >>> 19 | y << 13) ^ y >>> 10);
    }
    let [a, b, c, d, e, f, g, h] = H;
    for (let t = 0; t < 64; t++) {
      const one = h + ((e >>> 6 | e << 26) ^ (e >>> 11 | e << 21) ^ (e >>> 25 | e << 7)) + ((e & f) ^ (~e & g)) + K[t] + W[t] | 0;
      const two = ((a >>> 2 | a << 30) ^ (a >>> 13 | a << 19) ^ (a >>> 22 | a << 10)) + ((a & b) ^ (a & c) ^ (b & c)) | 0;
      h = g; g = f; f = e; e = d + one | 0; d = c; c = b; b = a; a = one + two | 0;
    }
    [a, b, c, d, e, f, g, h].forEach((value, n) => { H[n] += value; });
  }
  const out = new DataView(new ArrayBuffer(32));
  H.forEach((value, n) => out.setInt32(4 * n, value));
  return new Uint8Array(out.buffer);
}
const said = (words) => text.encode(words);
const eight = (n) => { const view = new DataView(new ArrayBuffer(8)); view.setBigUint64(0, BigInt(n)); return new Uint8Array(view.buffer); };
const LEAF = Uint8Array.of(0), NODE = Uint8Array.of(1);

// --- the map from handles to their histories: a Merkle tree with a place for each 256-bit key ---
let EMPTY;
const bit = (key, at) => key[at >> 3] >> (7 - (at & 7)) & 1;
const above = (key, depth, mine, other) => sha(bit(key, depth) ? join(NODE, other, mine) : join(NODE, mine, other));
function alone(key, value, depth) {
  let hash = sha(join(LEAF, key, value));
  for (let level = 255; level >= depth; level--) hash = above(key, level, hash, EMPTY[level + 1]);
  return { key, value, hash };
}
function put(node, key, value, depth) {
  if (!node || (node.key && hex(node.key) === hex(key))) return alone(key, value, depth);
  const made = node.key ? { parts: [null, null] } : node;
  if (node.key) made.parts[bit(node.key, depth)] = alone(node.key, node.value, depth + 1);
  made.parts[bit(key, depth)] = put(made.parts[bit(key, depth)], key, value, depth + 1);
  made.hash = sha(join(NODE, ...made.parts.map((part) => part?.hash ?? EMPTY[depth + 1])));
  return made;
}

// --- reading: every field once, none that the contract does not know ---
function read(bytes, repeated, known) {
  const found = fields(bytes), got = {};
  for (const [number, values] of found) {
    const name = known[number] ?? bad();
    if (values.length > 1 && !repeated.includes(name)) bad();
    got[name] = repeated.includes(name) ? values : values[0];
  }
  return got;
}
const raw = (value, size) => (value instanceof Uint8Array && value.length === size ? value : bad());
const blob = (value = new Uint8Array()) => (value instanceof Uint8Array ? value : bad());
const plain = (value) => words.decode(blob(value));
const number = (value = 0n) => (typeof value === "bigint" && value <= 1n << 53n ? Number(value) : bad());
const idOf = (key) => "ed25519:" + btoa(String.fromCharCode(...sha(join(said("ind.ai/key/v1\n"), Uint8Array.of(1), key)))).replaceAll("+", "-").replaceAll("/", "_").replace(/=+$/, "");
function readState(bytes, handle) {
  const got = read(bytes, ["rotation", "agents", "intents", "delegations"], { 1: "rotation", 2: "agents", 3: "node", 4: "record", 5: "intents", 6: "delegations", 7: "delegator", 8: "advertisement" });
  const rotation = (got.rotation ?? []).map((one) => raw(read(one, [], { 1: "key" }).key, 32));
  const agents = (got.agents ?? []).map((one) => {
    const key = read(one, ["scopes", "limits"], { 1: "id", 2: "key", 3: "from", 4: "until", 5: "revoked", 6: "scopes", 8: "limits" });
    const made = { id: plain(key.id), key: raw(key.key, 32), from: number(key.from), until: number(key.until), revoked: number(key.revoked) };
    made.rest = [made.from, made.until, ...(key.scopes ?? []).map(hex), "", ...(key.limits ?? []).map(hex)].join();
    if (made.id !== idOf(made.key) || (made.until && made.until <= made.from)) refuse("one of its keys is not what it is called");
    return made;
  });
  const ids = [...rotation.map(idOf), ...agents.map((one) => one.id)];
  if (!rotation.length || rotation.length > 5 || new Set(ids).size !== ids.length || agents.filter((one) => !one.revoked).length > 10) refuse("its keys are none, too many, or named twice");
  const record = got.record && read(got.record, [], { 1: "address", 2: "spki", 3: "origin", 4: "vkey", 5: "change" }), vkey = record && plain(record.vkey), origin = record && plain(record.origin);
  // A node names its own ledger alone: else it could put its key in the place of another's.
  if (record && (got.node || origin.slice(0, -12) !== handle || !/\/ledger\/[0-9]{4}$/.test(origin) || !vkey.startsWith(origin + "+"))) refuse("its ledger is not its own");
  return { rotation, ranks: rotation.map(idOf), agents, ids, delegations: (got.delegations ?? []).map(hex).join(), origin, vkey, change: record?.change };
}
// Two keys of one log that announce, both, that the second follows the first.
export async function succession(body) {
  const note = words.decode(body), [format, origin, ...vkeys] = note.slice(0, note.indexOf("\n\n")).split("\n");
  const [old, next] = await Promise.all(vkeys.map(readVkey));
  const lines = note.slice(note.indexOf("\n\n") + 2).split("\n").filter(Boolean).map((line) => line.split(" "));
  const signed = await Promise.all([old, next].map(async (key) => {
    const line = lines.map((each) => base64(each[2])).find((sig) => hex(sig.subarray(0, 4)) === key.id);
    return line && key.name === origin && key.algorithm === 1 && ed25519(key.key, text.encode(note.slice(0, note.indexOf("\n\n") + 1)), line.subarray(4));
  }));
  if (format !== "ind.ai/log-key/v1" || vkeys.length !== 2 || old.vkey === next.vkey || !signed.every(Boolean)) refuse("it does not announce the log's next key under both keys");
  return { old: old.vkey, next };
}
export async function readOperation(body) {
  const found = envelope(body), got = read(found.payload, [], { 1: "type", 2: "handle", 3: "seq", 4: "prev", 5: "subject", 6: "issued", 7: "registry", 8: "state", 9: "nonce", 10: "predecessor", 11: "successor" });
  read(body, ["signatures"], { 1: "payload", 2: "type", 3: "signatures" });
  if (found.type !== "application/vnd.ind.operation.v1+protobuf" || found.signatures.length !== 1) bad();
  const one = { type: number(got.type), handle: plain(got.handle), seq: number(got.seq), prev: hex(blob(got.prev)), subject: plain(got.subject), issued: number(got.issued), registry: plain(got.registry), predecessor: hex(blob(got.predecessor)), successor: got.successor };
  const ends = one.type === TOMBSTONE || one.type === TRANSFER;
  if (one.type < CREATE || one.type > TRANSFER || Boolean(got.state) === ends || !one.issued || !/^[a-z0-9.-]+(\/[a-z0-9-]+){0,2}$/.test(one.handle)) bad();
  raw(got.nonce, 16);
  if ((one.type === TRANSFER) !== Boolean(one.successor) || (one.predecessor && one.type !== CREATE)) bad();
  if (one.successor) raw(one.successor, 32);
  const state = ends ? null : readState(got.state, one.handle);
  if (state?.change?.length) {
    const said = await succession(state.change);
    if (said.next.vkey !== state.vkey) refuse("its ledger is not its own");
    state.former = said.old;
  }
  return { ...one, ends, state, found, signer: found.signatures[0].keyid, sig: found.signatures[0].sig, digest: await sha256(found.pae) };
}

// --- one handle's chain: what it was, and what may follow ---
function follows(chain, one) {
  let base = chain.links.at(-1);
  if (one.type === RECOVER) {
    base = chain.links.filter((link) => !link.gone).slice(0, -1).find((link) => link.mid === one.prev) ?? refuse("it recovers nothing that stands");
  } else if (chain.ended) refuse("the handle had ended before");
  if (chain.links.length >= MOST + (one.ends || one.type === RECOVER ? SPARE : 0)) refuse("its history is over the limit");
  if (one.seq !== base.seq + 1 || one.prev !== base.mid || one.subject !== chain.subject || one.registry !== chain.registry || one.issued < base.issued) refuse("it does not follow the operation before it");
  return base;
}
function begins(chain, one, time) {
  if (one.seq || one.prev || one.subject) refuse("it does not follow the operation before it");
  if (!chain) { if (one.predecessor) refuse("the handle was not handed over to this key"); return; }
  if (!chain.ended) refuse("the handle is somebody's already");
  const live = chain.links.filter((link) => !link.gone);
  const settled = live.slice(1).reduce((until, link, at) => (live[at].state && live[at].state.ranks[0] !== link.signer ? Math.max(until, link.time + RECOVERY) : until), 0);
  if (time <= settled || (!one.predecessor && time - chain.links.at(-1).time < HELD)) refuse("the handle's name was not free yet");
  if (one.predecessor && (one.predecessor !== chain.links.at(-1).mid || !chain.successor || idOf(chain.successor) !== one.signer)) refuse("the handle was not handed over to this key");
}
function recovers(chain, base, one, time) {
  const later = chain.links.filter((link) => !link.gone && link.seq > base.seq), { ranks } = base.state, rank = ranks.indexOf(one.signer);
  if (time - later[0].time > RECOVERY) refuse("what it would undo is more than 72 hours old");
  if (rank >= ranks.indexOf(later[0].signer)) refuse("its key may not overrule the one before");
  for (const link of later) {
    link.gone = true;
    for (const id of link.state?.ids ?? []) if (!base.state.ids.includes(id)) chain.barred.add(id);
    if (!ranks.slice(0, rank + 1).includes(link.signer)) chain.barred.add(link.signer);
  }
}
function keeps(before, one) {
  const after = new Map(one.state.agents.map((key) => [key.id, key]));
  let revoked = 0;
  for (const old of before) {
    const now = after.get(old.id);
    if (!now || now.rest !== old.rest) refuse("a key left its list, or was changed");
    after.delete(old.id);
    if (now.revoked === old.revoked) continue;
    revoked += 1;
    if (old.revoked || now.revoked !== one.issued) refuse("a key left its list, or was changed");
  }
  for (const key of after.values()) if (key.revoked || key.from < one.issued - BACKDATED) refuse("a new key is revoked, or older than it may be");
  if (revoked > 0 !== (one.type === REVOKE) && one.type !== RECOVER) refuse("it revokes keys and does not say so, or the other way round");
}

// A registry's whole log, entry by entry. `wrong`: what does not follow; `chains`: by handle, as far as it is right.
export class Registry {
  constructor(log) { this.log = log; this.chains = new Map(); this.past = []; this.wrong = []; this.maps = []; this.announced = []; this.root = null; this.operations = 0; }
  async add(entry, index) {
    let handle = "";
    try {
      if (entry.length <= 42 || entry[0] !== 1 || ![2, 5].includes(entry[1])) bad();
      const time = Number(u64(entry.subarray(2, 10))), body = entry.subarray(42);
      if (entry[1] === 5) await this.announcement(body, index);
      else {
        this.operations += 1;
        const one = await readOperation(body);
        handle = one.handle;
        if (one.registry !== this.log) refuse("it is meant for another registry");
        const chain = await this.operation(one, time);
        this.root = put(this.root, sha(join(said("ind.ai/map/v1\n"), said(handle))), sha(join(said("ind.ai/map-value/v1\n"), Uint8Array.of(handle.length >> 8, handle.length & 255), said(handle), chain.digest)), 0);
      }
    } catch (error) {
      if (!(error instanceof Wrong || error instanceof TypeError || error instanceof RangeError)) throw error;
      this.wrong.push(w("entry {index} ({handle}): {why}", { index, handle, why: error.said ?? w("its form is not that of an operation") }));
      return;
    }
    if (hex(entry.subarray(10, 42)) !== hex(this.root?.hash ?? EMPTY[0])) this.maps.push(w("entry {index} ({handle})", { index, handle }));
  }
  async operation(one, time) {
    let chain = this.chains.get(one.handle);
    if (time < (chain?.links.at(-1).time ?? 0) || one.issued > time + SKEW) refuse("its time is before the entry it follows");
    if (!chain && one.type !== CREATE) refuse("it does not follow the operation before it");
    const starts = one.type === CREATE, base = starts ? begins(chain, one, time) : follows(chain, one), before = base?.state ?? one.state;
    const key = before.rotation[before.ranks.indexOf(one.signer)];
    if (!key) refuse("who signed it holds no rotation key of the handle");
    if (!(await ed25519(key, one.found.pae, one.sig))) refuse("its signature does not verify");
    const link = { mid: hex(one.digest), seq: one.seq, issued: one.issued, signer: one.signer, time, state: one.state, gone: false };
    // Everything is judged before anything is changed: what is refused leaves the chain as it was.
    if (one.state) {
      keeps(starts ? [] : base.state.agents, one);
      if (!starts && base.state.delegations !== one.state.delegations !== (one.type === DELEGATE) && one.type !== RECOVER) refuse("it changes what was delegated and does not say so, or the other way round");
    }
    const barred = new Set(chain?.barred), links = chain?.links.map((each) => ({ ...each }));
    const next = starts
      ? { handle: one.handle, registry: one.registry, subject: "ind:" + base32(one.digest).slice(0, 32), links: [link], barred: new Set() }
      : { ...chain, links, barred };
    if (one.type === RECOVER) recovers(next, base, one, time);
    if (one.state?.ids.some((id) => next.barred.has(id))) refuse("it names a key that a recovery has barred");
    if (!starts) next.links.push(link);
    next.state = one.state ?? before;
    next.ended = one.ends ? one.issued : 0;
    next.successor = one.successor;
    next.digest = sha(join(said("ind.ai/history/v1\n"), chain?.digest ?? new Uint8Array(), eight(time), one.digest));
    if (starts && chain) this.past.push(chain);
    this.chains.set(one.handle, next);
    return next;
  }
  async announcement(body, index) { this.announced.push({ index, ...await succession(body) }); }
  get mapRoot() { return hex(this.root?.hash ?? EMPTY[0]); }
  // Key id -> the key, and its life with everybody who ever listed it: anybody may list a key that is another's.
  learn(known) {
    for (const chain of [...this.past, ...this.chains.values()]) {
      for (const link of chain.links) for (const key of link.state?.agents ?? []) {
        const held = known.people.get(key.id) ?? { key: key.key, whose: new Map() }, owner = `${chain.handle} ${chain.subject}`;
        const now = chain.state.agents.find((each) => each.id === key.id) ?? key, ends = [now.revoked, chain.ended].filter(Boolean);
        held.whose.set(owner, { published: held.whose.get(owner)?.published ?? link.time, from: now.from, until: now.until, revoked: ends.length ? Math.min(...ends) : 0, barred: chain.barred.has(key.id) });
        known.people.set(key.id, held);
      }
    }
  }
  // Origin -> its ledger's keys in their order, each as the node's records have named it: {vkey, former, announced}.
  ledgers() {
    const found = new Map();
    for (const { state } of [...this.past, ...this.chains.values()].flatMap((chain) => chain.links)) {
      if (!state?.vkey) continue;
      const keys = found.get(state.origin) ?? [], former = keys.at(-1)?.vkey;
      if (former !== state.vkey) keys.push({ vkey: state.vkey, former, announced: state.former === former });
      found.set(state.origin, keys);
    }
    return found;
  }
}
function base32(bytes) {
  let bits = "";
  for (const byte of bytes) bits += byte.toString(2).padStart(8, "0");
  return bits.match(/.{1,5}/g).map((five) => "abcdefghijklmnopqrstuvwxyz234567"[parseInt(five.padEnd(5, "0"), 2)]).join("");
}
