-- lend - a Wireshark and tshark dissector for Lend's datagrams.
--
--   wireshark -X lua_script:scripts/wireshark/lend.lua FILE.pcapng
--
-- Two kinds of input. Captures that Lend wrote itself (link type 252) name the dissector lend_capture: a header gives a
-- datagram's direction, its peer, and whether it ends with a trailer. UDP from other sources (tcpdump) is recognised by
-- its first and last bytes. Sealed datagrams show their head, epoch, number and tag; lend decap opens them. Fragments are reassembled, requests and replies linked, memory nodes' operations decoded.
-- Dissectors for other methods' messages register in the table lend.method.
--
-- The layouts below are those of src/wire and src/io/capture/capture.h; the test e2e.capture compares them.

local bit = bit32 or bit
local lend = Proto("lend", "Lend")
local capture = Proto("lend_capture", "Lend capture")
lend.prefs.checksum = Pref.bool("Verify checksums", true, "CRC32C of each datagram that has a trailer")
local methods = DissectorTable.new("lend.method", "Lend method", ftypes.UINT32, base.HEX, lend)

local KINDS = {"CONNECT", "ACCEPT", "RESET", "BYE", "BYE_ACK", "PING", "REQUEST", "REPLY", "ACK", "PROBE", "CANCEL", "GONE",
	"CALLS", "RETRY", "PROOF", "RUNNING", [32] = "DRAIN"}
local CONNECT, ACCEPT, REQUEST, REPLY, ACK, PROBE, CALLS, RETRY, PROOF, RUNNING = 1, 2, 7, 8, 9, 10, 13, 14, 15, 16
local NEVER_SEALED = {[1] = true, [2] = true, [3] = true, [5] = true, [14] = true, [15] = true}
local STATES = {[0] = "UNSEEN", "PARTIAL", "WHOLE"}
local PATTERNS = {[0] = "OPEN", "PROOF", "NN", "NK", "RESUME"}
local REASONS = {"COOKIE", "FULL", "LEVEL"}
local ZERO_RTT = {[0] = "NO_ZERO_RTT", "ZERO_RTT", "ZERO_RTT_NOT", "ZERO_RTT_RUNS"}
local RAN = {[0] = "NO", "YES", "MAYBE"}
local STATUS = {[0] = "OK", "CANCELLED", "UNKNOWN", "INVALID_ARGUMENT", "DEADLINE_EXCEEDED", "NOT_FOUND", "ALREADY_EXISTS",
	"PERMISSION_DENIED", "RESOURCE_EXHAUSTED", "FAILED_PRECONDITION", "ABORTED", "OUT_OF_RANGE", "UNIMPLEMENTED",
	"INTERNAL", "UNAVAILABLE", "DATA_LOSS", "UNAUTHENTICATED"}
local EVENTS = {[0] = "SENT", "FULL", "DEAD", "RECEIVED", "GONE"}
local OPS = {"HELLO", "PUT", "GET", "ALLOC", "READ", "WRITE", "SEAL", "MAP", "ADOPT", "GRANT", "RELEASE", "NARROW", "FREE",
	"STAT", "FORGET", "RENEW", "BYE_CLIENT", "POOL_MAP", "POOL_VIEW", "POOL_DROP", "GET_MANY"}
local HOMES = {[0] = "NODE", "CALLER", "SET"}
local FORGOT = {[0] = "PREVENTED", "UNDONE", "RAN"}
local TERMS = {[0] = "OWNED", "TRANSFER", "SHARED"}
local MEM_STATS = {"pages_total", "pages_used", "pages_pinned", "pages_quarantined", "refs", "spaces", "clients",
	"incarnations", "holds", "grants", "nodes_used", "ops", "repeats", "bad_ops", "denied", "stale", "full", "aborted",
	"forgets", "cow_copies", "pin_copies", "grants_expired", "leases_expired", "hangups", "pauses", "tx_bytes",
	"pinned_maps", "over_quota", "damaged", "page_bytes"}
local HEAD_KINDS = {"METHOD", "AUTHORITY", "MESSAGE", "ENCODING", "INITIAL", "TRAILING"}
local NOTES = {[0] = "MESSAGE", "LAST", "CREDIT", "OPEN"}
local MAGIC, VERSION, TRAILER, MEM_METHOD, STREAM_METHOD = 0x4c, 2, 16, 0x4c454e44, 0x4c454e53
local FRAMES_MAX, FRAME_ALIGN = 64, 8
local MESSAGE_HEAD_MAX, MESSAGE_HEAD_ALIGN = 8192, 4
local JOIN_MAX = 256 * 1024 * 1024

local fields = {}
local function field(name, make, ...)
	fields[name] = ProtoField[make]("lend." .. name, ...)
	return fields[name]
end

-- A layout is a list of {name, bytes, how}: consecutive, little endian. how: a table of values, "hex", "bytes", "text",
-- "ns" or nothing. prefix makes the names unique: lend.PREFIX.NAME. Layouts that have a name in common share its field.
local function layout(prefix, list)
	local size = 0
	for _, f in ipairs(list) do
		local name, bytes, how = f[1], f[2], f[3]
		local kind = ({"uint8", "uint16", [4] = "uint32", [8] = "uint64"})[bytes] or (bytes > 8 and "bytes" or "uint64")
		local full = prefix == "" and name or prefix .. "." .. name
		f.raw = how == "bytes" or bytes > 8
		if fields[full] then
			f.field = fields[full]
		elseif f.raw then
			f.field = field(full, "bytes", full)
		elseif type(how) == "table" then
			f.field = field(full, kind, full, base.DEC, how)
		else
			f.field = field(full, kind, full, how == "hex" and base.HEX or base.DEC)
		end
		f.name, size = full, size + bytes
	end
	list.size = size
	return list
end

local HEAD = layout("", {{"magic", 1, "hex"}, {"version", 1}, {"kind", 1, KINDS}, {"flags", 1, "hex"}, {"call", 4, "hex"},
	{"session", 8, "hex"}, {"number", 8}, {"offset", 4}, {"length", 4}})
-- A frame of CALLS: this, the block of a request or reply, the payload.
local FRAME = layout("", {{"call", 4, "hex"}, {"length", 2}, {"flags", 1, "hex"}, {"zero", 1}})
local REQUEST_END = layout("", {{"request_end", 4}})
local CONNECT_1 = layout("connect", {{"connect", 8, "hex"}, {"session", 8, "hex"}, {"pattern", 1, PATTERNS}, {"suite", 1},
	{"level", 1}, {"least", 1}, {"features", 4, "hex"}, {"key_id", 8, "hex"}, {"e", 32, "bytes"}})
local COOKIE = layout("cookie", {{"time", 8}, {"mac", 16, "bytes"}})
local TICKET = layout("ticket", {{"until", 8}, {"key_id", 8, "hex"}, {"random", 8, "hex"}, {"mac", 16, "bytes"}})
local PARAMS = layout("params", {{"incarnation", 16, "bytes"}, {"payload", 4}, {"unscheduled", 4}, {"message_max", 4},
	{"first", 4}, {"calls", 4}, {"zero", 4}})
local ACCEPT_1 = layout("accept", {{"connect", 8, "hex"}, {"session", 8, "hex"}, {"pattern", 1, PATTERNS}, {"suite", 1},
	{"level", 1}, {"zero_rtt", 1, ZERO_RTT}, {"features", 4, "hex"}, {"zero", 8}, {"e", 32, "bytes"}})
local ACCEPT_2 = layout("accept", {{"ticket_secret", 32, "bytes"}, {"tag", 16, "bytes"}})
local RETRY_1 = layout("retry", {{"connect", 8, "hex"}, {"reason", 1, REASONS}, {"suites", 1}, {"zero", 2}, {"wait_ms", 4}})
local CONNECT_END = layout("end", {{"tag", 16, "bytes"}, {"mac1", 16, "bytes"}})
local MAC1 = {CONNECT_END[2], size = 16}
-- Blocks of several parts, in their order. Sealed sessions encrypt them from the parameters on.
local PARTS = {
	[CONNECT] = {CONNECT_1, COOKIE, TICKET, PARAMS},
	[ACCEPT] = {ACCEPT_1, PARAMS, TICKET, ACCEPT_2},
	[RETRY] = {RETRY_1, COOKIE},
	[PROOF] = {layout("proof", {{"proof", 16, "bytes"}})},
}
local BLOCKS = {
	[REQUEST] = layout("request", {{"method", 4, "hex"}, {"left_us", 4}, {"grant", 4}}),
	[REPLY] = layout("reply", {{"status", 1, STATUS}, {"ran", 1, "hex"}, {"patience_ms", 1}, {"window", 1}, {"delay_ns", 4}, {"acked", 8}}),
	[ACK] = layout("ack", {{"low", 4}, {"granted", 4}}),
	[RUNNING] = layout("running", {{"slots", 128, "bytes"}}),
}
BLOCKS[PROBE] = BLOCKS[ACK]
local SEEN = layout("seen", {{"acked", 8}, {"map", 8, "hex"}, {"delay_ns", 4}, {"ecn", 4}})
local TAG = layout("sealed", {{"tag", 16, "bytes"}})
local END = layout("trailer", {{"crc", 4, "hex"}, {"zero", 12, "bytes"}})
local LEAD = layout("capture", {{"version", 1}, {"event", 1, EVENTS}, {"flags", 1, "hex"}, {"text_len", 1}, {"peer", 4}, {"carrier", 4}})

-- A message head: this, then entries; a key and a value follow each. The note at the start of a stream's calls.
local MESSAGE_HEAD = layout("head", {{"len", 2}, {"entries", 2}})
local ENTRY = layout("head.entry", {{"kind", 1, HEAD_KINDS}, {"key_len", 1}, {"value_len", 2}})
local NOTE = layout("note", {{"stream", 8}, {"at", 8}, {"kind", 1, NOTES}, {"to_opener", 1}, {"zero", 6, "bytes"}})
local TAKEN = layout("note", {{"taken", 8}})

-- Operations of memory nodes.
local MEM = layout("mem", {{"op", 1, OPS}, {"version", 1}, {"flags", 2, "hex"}, {"client", 4}, {"id", 8}, {"low", 8},
	{"life", 8, "hex"}})
local REF = layout("ref", {{"node", 4, "hex"}, {"epoch", 4, "hex"}, {"slot", 4}, {"version", 1}, {"depth", 1},
	{"rights", 2, "hex"}, {"serial", 6}, {"root_len", 6}, {"slice1_offset", 5}, {"slice1_len", 5}, {"slice2_offset", 5},
	{"slice2_len", 5}, {"token", 16, "bytes"}})
local SPACE = layout("space", {{"slot", 4}, {"epoch", 4, "hex"}, {"serial", 8}})
local TERM = layout("terms", {{"kind", 1, TERMS}, {"zero", 3, "bytes"}, {"n", 4}, {"ttl_ns", 8}})
local function part(name, bytes, how) return layout("mem", {{name, bytes, how}}) end
local OFFSET, LEN, TARGET, MAPPED = part("offset", 8), part("len", 8), part("target", 8), part("mapped", 8)
local RIGHTS = layout("mem", {{"rights", 4, "hex"}, {"rights_zero", 4, "bytes"}})
local JOIN = layout("mem", {{"proof", 16, "bytes"}})
local COUNT = layout("mem", {{"n", 4}, {"n_zero", 4, "bytes"}})
local REQUESTS = {HELLO = {JOIN}, PUT = {TERM, LEN}, GET = {REF, OFFSET, LEN}, ALLOC = {LEN}, READ = {SPACE, OFFSET, LEN},
	WRITE = {SPACE, OFFSET, LEN}, SEAL = {SPACE, OFFSET, LEN, TERM}, MAP = {REF}, ADOPT = {REF}, GRANT = {REF, TERM},
	RELEASE = {COUNT}, NARROW = {REF, OFFSET, LEN, RIGHTS}, FREE = {SPACE}, FORGET = {TARGET},
	POOL_MAP = {REF, TARGET}, POOL_VIEW = {SPACE, OFFSET, TARGET}, POOL_DROP = {SPACE, TARGET}, GET_MANY = {COUNT}}
local VIEW = layout("view", {{"pinned_map", 16, "bytes"}, {"pages", 8}, {"first", 4}, {"n", 4}})
local RUN = layout("view.run", {{"frame", 4}, {"pages", 4}})
local REPLIES = {PUT = {REF}, ALLOC = {SPACE}, SEAL = {REF}, NARROW = {REF}, MAP = {SPACE, MAPPED},
	HELLO = {layout("node", {{"id", 4, "hex"}, {"epoch", 4, "hex"}, {"page", 4}, {"open", 2}, {"worker", 1}, {"workers", 1},
		{"lease_ns", 8}, {"life", 8, "hex"}, {"key", 16, "bytes"}, {"text_len", 4}, {"node_zero", 4, "bytes"}})},
	RELEASE = {layout("mem", {{"released", 4}, {"not_held", 4}})},
	POOL_MAP = {SPACE, MAPPED, VIEW}, POOL_VIEW = {VIEW},
	FORGET = {layout("mem", {{"forgot", 1, FORGOT}, {"forgot_zero", 7, "bytes"}})},
	STAT = {layout("mem", {{"stats", 4}, {"stats_zero", 4, "bytes"}})}}
local STAT = {}
for i, name in ipairs(MEM_STATS) do STAT[i] = layout("stat", {{name, 8}}) end

-- Parts of a number, as {field, mask}; computed fields; expert infos.
local function bits(list)
	for _, b in ipairs(list) do
		local name, width, mask, values = b[1], b[2], b[3], b[4]
		if values == true then
			b.field = field(name, "bool", name, width, nil, mask)
		else
			b.field = field(name, "uint" .. width, name, base.DEC, values, mask)
		end
	end
	return list
end
local FLAGS = bits{{"flags.class", 8, 0x07}, {"flags.served", 8, 0x08, true}, {"flags.acked", 8, 0x10, true},
	{"flags.head", 8, 0x20, true}, {"flags.fine", 8, 0x40, true}, {"flags.encrypted", 8, 0x80, true}}
local CALL = bits{{"call.slot", 32, 0x3ff}, {"call.seq", 32, 0xfffffc00}}
local RAN_HOPS = bits{{"reply.ran.value", 8, 0x03, RAN}, {"reply.ran.hops", 8, 0xfc}}
local ACK_STATE = bits{{"ack.state", 32, 0xffffffff, STATES}}
local ACK_FLAGS = bits{{"ack.dropped", 32, 1, true}, {"ack.probed", 32, 2, true}, {"ack.wait", 32, 4, true}}
local CONSUME = bits{{"mem.consume", 16, 1, true}, {"mem.bound", 16, 4, true}}
local REF_RIGHTS = bits{{"ref.rights.root", 16, 0x1f}, {"ref.rights.slice1", 16, 0x3e0}, {"ref.rights.slice2", 16, 0x7c00}}
local CHECKED = bits{{"capture.checked", 8, 1, true}}
local payload = field("payload", "bytes", "payload")
local message = field("message", "bytes", "message")
local message_len = field("message.len", "uint32", "message.len", base.DEC)
local message_fragments = field("message.fragments", "uint32", "message.fragments", base.DEC)
local message_fragment = field("message.fragment", "framenum", "message.fragment")
local joined_in = field("message.joined_in", "framenum", "message.joined_in")
local repeated = field("repeated", "framenum", "repeated: first in")
local response_in = field("response_in", "framenum", "response_in", base.NONE, frametype.RESPONSE)
local response_to = field("response_to", "framenum", "response_to", base.NONE, frametype.REQUEST)
local request_in = field("request_in", "framenum", "request_in")
local acked_frame = field("seen.frame", "framenum", "seen.frame", base.NONE, frametype.ACK)
local seen_list = field("seen.list", "string", "seen.list")
local call_time = field("time", "relative_time", "time")
local crc_good = field("trailer.good", "bool", "trailer.good")
local head_key = field("head.entry.key", "string", "head.entry.key")
local head_text = field("head.entry.text", "string", "head.entry.text")
local head_bytes = field("head.entry.bytes", "bytes", "head.entry.bytes")
local mem_payload = field("mem.payload", "bytes", "mem.payload")
local node_text = field("node.addresses", "string", "node.addresses")
local ref_home, ref_tenant = field("ref.home", "uint8", "ref.home", base.DEC, HOMES), field("ref.tenant", "uint16", "ref.tenant", base.DEC)
local ref_key_id = field("ref.key_id", "uint8", "ref.key_id", base.HEX)
local ref_first, ref_len = field("ref.first", "uint64", "ref.first", base.DEC), field("ref.len", "uint64", "ref.len", base.DEC)
local sealed_epoch, sealed_number = field("sealed.epoch", "uint8", "sealed.epoch", base.DEC), field("sealed.number", "uint64", "sealed.number", base.DEC)
local sealed_text = field("sealed.text", "bytes", "sealed.text")
local peer_text = field("capture.address", "string", "capture.address")

local experts = {}
local function expert_of(name, text, severity)
	experts[name] = ProtoExpert.new("lend.expert." .. name, text, expert.group.MALFORMED, expert.severity[severity])
	return experts[name]
end
local SHORT = expert_of("short", "Shorter than its kind", "ERROR")
local FOREIGN = expert_of("foreign", "Not this magic or version", "WARN")
local KIND = expert_of("kind", "Unknown kind or reserved flag", "ERROR")
local CHECKSUM = expert_of("checksum", "Wrong checksum: dropped by the receiver", "ERROR")
local LENGTH = expert_of("length", "Offset and length contradict the payload", "ERROR")
local OPERATION = expert_of("operation", "Not a well-formed memory operation", "ERROR")
local BAD_HEAD = expert_of("head", "Not a well-formed message head", "ERROR")
local NOT_A_NOTE = expert_of("note", "Not a well-formed note of a stream", "ERROR")
local CUT = expert_of("cut", "Cut by the capture's snap length", "NOTE")

local all = {}
for _, f in pairs(fields) do all[#all + 1] = f end
lend.fields = all
lend.experts = experts

-- CRC32C, bytewise.
local crc_table = {}
for i = 0, 255 do
	local c = i
	for _ = 1, 8 do c = bit.bxor(bit.rshift(c, 1), bit.band(c, 1) == 1 and 0x82f63b78 or 0) end
	crc_table[i] = c
end
local function crc32c(text)
	local crc, bxor, band, rshift, byte = 0xffffffff, bit.bxor, bit.band, bit.rshift, string.byte
	for i = 1, #text do crc = bxor(crc_table[band(bxor(crc, byte(text, i)), 255)], rshift(crc, 8)) end
	return bit.bnot(crc) % 0x100000000
end

-- State from a pass over the capture. Keys carry the carrier: one file may hold both ends of a session.
local partner, numbers, asked, messages, calls, by_frame, sums
function lend.init()
	partner, numbers, asked, messages, calls, by_frame, sums = {}, {}, {}, {}, {}, {}, {}
end

local function add_bits(tree, range, list)
	for _, b in ipairs(list) do tree:add_le(b.field, range) end
end

-- Adds a layout at an offset; its items by name and where it ends, or nil where bytes are missing.
local function add_layout(tree, tvb, at, list)
	local item = {}
	if at + list.size > tvb:captured_len() then return nil, at end
	for _, f in ipairs(list) do
		local range = tvb(at, f[2])
		item[f[1]] = f.raw and tree:add(f.field, range) or tree:add_le(f.field, range)
		at = at + f[2]
	end
	return item, at
end

local function add_seen(tree, tvb, at, d)
	local sub = tree:add(lend, tvb(at, math.min(SEEN.size, tvb:captured_len() - at)), "Seen")
	local _, next_at = add_layout(sub, tvb, at, SEEN)
	if next_at == at then return at end
	local acked, map = tvb(at, 8):le_uint64(), {tvb(at + 8, 4):le_uint(), tvb(at + 12, 4):le_uint()}
	local list, last = {}, nil -- ranges of distances below acked
	for i = 0, 64 do
		local seen = i == 0 or bit.band(bit.rshift(map[i <= 32 and 1 or 2], (i - 1) % 32), 1) == 1
		if seen and last and last[2] == i - 1 then
			last[2] = i
		elseif seen then
			last = {i, i}
			list[#list + 1] = last
		end
	end
	for i, r in ipairs(list) do
		local text = tostring(acked - r[1])
		list[i] = r[2] > r[1] and tostring(acked - r[2]) .. "-" .. text or text
	end
	sub:add(seen_list, tvb(at, 16), table.concat(list, ", ")):set_generated()
	local frame = numbers[d.back .. tostring(acked)]
	if frame then sub:add(acked_frame, tvb(at, 8), frame):set_generated() end
	sub:append_text(": " .. tostring(acked))
	return next_at
end

local function add_reference(tree, tvb, at)
	local sub = tree:add(lend, tvb(at, math.min(REF.size, tvb:captured_len() - at)), "Reference")
	local item, next_at = add_layout(sub, tvb, at, REF)
	if not item then return at end
	add_bits(item.rights, tvb(at + 14, 2), REF_RIGHTS)
	local depth, first, len = tvb(at + 13, 1):uint(), UInt64(0), tvb(at + 22, 6):le_uint64()
	if tvb(at + 12, 1):uint() == 2 then -- epoch 2 and tenant 2, home and depth, root length 5 and key id 1
		sub:add(ref_home, tvb(at + 13, 1), bit.rshift(depth, 4)):set_generated()
		sub:add(ref_tenant, tvb(at + 6, 2), tvb(at + 6, 2):le_uint()):set_generated()
		sub:add(ref_key_id, tvb(at + 27, 1)):set_generated()
		depth, len = bit.band(depth, 15), tvb(at + 22, 5):le_uint64()
	end
	for i = 1, math.min(depth, 2) do
		first = first + tvb(at + 18 + 10 * i, 5):le_uint64()
		len = tvb(at + 23 + 10 * i, 5):le_uint64()
	end
	sub:add(ref_first, tvb(at, REF.size), first):set_generated()
	sub:add(ref_len, tvb(at, REF.size), len):set_generated()
	sub:append_text(string.format(": node %08x slot %u, %s bytes", tvb(at, 4):le_uint(), tvb(at + 8, 4):le_uint(), tostring(len)))
	return next_at
end

-- Layouts one after the other; nil where the message is too short.
local function add_all(tree, tvb, at, lists)
	for _, list in ipairs(lists) do
		local before = at
		if list == REF then
			if at + REF.size <= tvb:captured_len() then at = add_reference(tree, tvb, at) end
		else
			_, at = add_layout(tree, tvb, at, list)
		end
		if at == before then return nil end
	end
	return at
end

local function add_rest(tree, tvb, at)
	if at < tvb:captured_len() then tree:add(mem_payload, tvb(at)) end
end

local function mem_request(tvb, pinfo, tree, call)
	local sub = tree:add(lend, tvb(), "Memory operation")
	local item, at = add_layout(sub, tvb, 0, MEM)
	local op = item and OPS[tvb(0, 1):uint()]
	if not op or tvb(1, 1):uint() ~= 1 then
		sub:add_proto_expert_info(OPERATION)
		return
	end
	add_bits(item.flags, tvb(2, 2), CONSUME)
	sub:append_text(": " .. op)
	pinfo.cols.info:append(", " .. op)
	if call then call.op = op end
	at = add_all(sub, tvb, at, REQUESTS[op] or {})
	if not at then
		sub:add_proto_expert_info(OPERATION)
	elseif op == "RELEASE" then
		local n = tvb(MEM.size, 4):le_uint()
		if tvb:captured_len() - at ~= n * REF.size then sub:add_proto_expert_info(OPERATION) end
		while at + REF.size <= tvb:captured_len() do at = add_reference(sub, tvb, at) end
	else
		add_rest(sub, tvb, at)
	end
end

local function mem_reply(tvb, pinfo, tree, op)
	local sub = tree:add(lend, tvb(), "Memory operation: " .. op)
	local at = add_all(sub, tvb, 0, REPLIES[op] or {})
	pinfo.cols.info:append(", " .. op)
	if not at then
		sub:add_proto_expert_info(OPERATION)
	elseif op == "HELLO" then
		if at < tvb:captured_len() then sub:add(node_text, tvb(at)) end
	elseif op == "POOL_MAP" or op == "POOL_VIEW" then
		while at + RUN.size <= tvb:captured_len() do _, at = add_layout(sub, tvb, at, RUN) end
	elseif op == "STAT" then
		for _, list in ipairs(STAT) do _, at = add_layout(sub, tvb, at, list) end
	else
		add_rest(sub, tvb, at)
	end
end

-- An entry of a message head that is to end at an offset; where it ends, or nil.
local function add_entry(tree, tvb, pinfo, at, finish)
	if at + ENTRY.size > finish then return nil end
	local kind, key_len, len = tvb(at, 1):uint(), tvb(at + 1, 1):uint(), tvb(at + 2, 2):le_uint()
	local key_at = at + ENTRY.size
	local value_at = key_at + key_len + 1
	local whole = math.ceil((value_at + len + 1 - at) / MESSAGE_HEAD_ALIGN) * MESSAGE_HEAD_ALIGN
	if at + whole > finish then return nil end
	local key, value = tvb:raw(key_at, key_len), tvb:raw(value_at, len)
	local sub = tree:add(lend, tvb(at, whole), string.format("%s %s", HEAD_KINDS[kind] or kind, key))
	add_layout(sub, tvb, at, ENTRY)
	if key_len > 0 then sub:add(head_key, tvb(key_at, key_len), key) end
	if key:sub(-4) == "-bin" then
		if len > 0 then sub:add(head_bytes, tvb(value_at, len)) end
	else
		sub:add(head_text, tvb(value_at, len + 1), value)
		sub:append_text(": " .. value)
	end
	if HEAD_KINDS[kind] == "METHOD" then pinfo.cols.info:append(", " .. value) end
	return at + whole
end

-- The head of a message; where it ends, or nil.
local function add_message_head(tree, tvb, pinfo)
	local sub = tree:add(lend, tvb(), "Message head")
	local item, at = add_layout(sub, tvb, 0, MESSAGE_HEAD)
	local len = item and tvb(0, 2):le_uint() or 0
	local n = item and tvb(2, 2):le_uint() or 0
	if len <= math.min(MESSAGE_HEAD_MAX, tvb:captured_len()) then
		for _ = 1, n do at = at and add_entry(sub, tvb, pinfo, at, len) end
	end
	if not item or at ~= len then
		sub:add_proto_expert_info(BAD_HEAD)
		return nil
	end
	sub:set_len(len)
	return len
end

-- The note of a stream's call, or the reply to one.
local function add_note(tvb, pinfo, tree, d)
	local sub = tree:add(lend, tvb(), "Stream")
	local item, at = add_layout(sub, tvb, 0, d.kind == REQUEST and NOTE or TAKEN)
	if not item or d.kind == REQUEST and not NOTES[tvb(16, 1):uint()] then
		sub:add_proto_expert_info(NOT_A_NOTE)
	elseif d.kind == REQUEST then
		local text = string.format(" %s: %s %s", tostring(tvb(0, 8):le_uint64()), NOTES[tvb(16, 1):uint()], tostring(tvb(8, 8):le_uint64()))
		sub:append_text(text)
		pinfo.cols.info:append(", stream" .. text)
		if at < tvb:captured_len() then tree:add(message, tvb(at)) end
	end
end

-- A whole message.
local function add_message(tvb, pinfo, tree, d, call)
	local method = d.kind == REQUEST and d.method or call and call.method
	if bit.band(d.flags, 0x20) ~= 0 then
		local at = add_message_head(tree, tvb, pinfo)
		if not at or at == tvb:captured_len() then return end
		tvb = tvb(at):tvb()
	end
	if method == STREAM_METHOD and (d.kind == REQUEST or d.status == 0) and tvb:captured_len() > 0 then
		add_note(tvb, pinfo, tree, d)
	elseif method == MEM_METHOD and d.kind == REQUEST then
		mem_request(tvb, pinfo, tree, call)
	elseif method == MEM_METHOD and call.op and d.status == 0 and tvb:captured_len() > 0 then
		mem_reply(tvb, pinfo, tree, call.op)
	elseif tvb:captured_len() > 0 then
		local dissector = method and methods:get_dissector(method)
		tree:add(message, tvb())
		if dissector then dissector:call(tvb, pinfo, tree) end
	end
end

-- The call that a datagram belongs to: that of its caller, known by the session that its requests go to.
local function call_of(d, make)
	local key = (d.kind == REPLY or d.served) and d.back or d.to
	local call = calls[key .. d.call]
	if not call and make then
		call = {}
		calls[key .. d.call] = call
	end
	return call
end

-- Adds a fragment; true when the message is whole.
local function join(m, d, tvb, at, len)
	if m.text or not m.piece or m.piece[d.offset] or d.length > JOIN_MAX then return end
	m.piece[d.offset] = tvb:raw(at, len)
	m.frame[#m.frame + 1] = d.frame
	m.got = m.got + len
	if m.got < d.length then return end
	local offsets, texts, next_at = {}, {}, 0
	for offset in pairs(m.piece) do offsets[#offsets + 1] = offset end
	table.sort(offsets)
	for i, offset in ipairs(offsets) do
		if offset ~= next_at then return end
		texts[i] = m.piece[offset]
		next_at = offset + #texts[i]
	end
	m.text, m.piece, m.whole_in = table.concat(texts), nil, d.frame
end

-- A session's ACCEPT has its two ids. Where that was not captured: a reply names the peer's number that it answers,
-- and the call is the same.
local function pair(d)
	if d.kind == ACCEPT then
		partner[d.to], partner[d.carrier .. d.hello] = d.carrier .. d.hello, d.to
	elseif d.kind == REQUEST then
		asked[d.way .. d.call] = d.to
	elseif d.kind == REPLY and not partner[d.to] then
		local to = asked[d.yaw .. d.call]
		if to and numbers[to .. d.acked] then partner[d.to], partner[to] = to, d.to end
	end
	d.back = partner[d.to] or d.back
end

-- The first pass over a frame: records what it reveals about others. whole: all its bytes were captured.
local function learn(d, pinfo, tvb, at, len, whole)
	local seen = {}
	by_frame[d.key] = seen
	numbers[d.to .. d.number] = numbers[d.to .. d.number] or d.frame
	pair(d)
	if d.kind ~= REQUEST and d.kind ~= REPLY then return end
	local call, key = call_of(d, true), d.to .. d.call .. d.kind
	local m = messages[key] or d.length == len and d.frame or {piece = {}, frame = {}, first = {}, got = 0}
	if type(m) == "number" then -- of one fragment: only at its first copy
		seen.repeated = m ~= d.frame and m or nil
	else
		seen.repeated, seen.message = m.first[d.offset], m
		m.first[d.offset] = seen.repeated or d.frame
		if whole then join(m, d, tvb, at, len) end
	end
	messages[key], seen.call = m, call
	if d.kind == REQUEST then
		call.request, call.method, call.began = call.request or d.frame, d.method, call.began or pinfo.rel_ts
	elseif not call.reply or seen.message and m.whole_in == d.frame then
		call.reply, call.ended = d.frame, pinfo.rel_ts
	end
end

local function add_links(tree, d, seen, call)
	if seen.repeated then tree:add(repeated, seen.repeated):set_generated() end
	if not call then return end
	if d.kind == REQUEST and call.reply then tree:add(response_in, call.reply):set_generated() end
	if d.kind == REPLY and call.request then
		local t = (call.ended or call.began) - call.began
		tree:add(response_to, call.request):set_generated()
		tree:add(call_time, NSTime(math.floor(t), math.floor(t % 1 * 1e9 + 0.5))):set_generated()
	end
	if d.kind ~= REQUEST and d.kind ~= REPLY and call.request then tree:add(request_in, call.request):set_generated() end
end

local function add_payload(tree, tvb, pinfo, d, at, len)
	local seen = by_frame[d.key] or {}
	local m = seen.message
	if len > 0 then tree:add(payload, tvb(at, len)) end
	pinfo.cols.info:append(len < d.length and string.format(", %u of %u bytes at %u", len, d.length, d.offset) or
		string.format(", %u bytes", d.length))
	if d.length == len and not seen.repeated then
		if len > 0 then add_message(tvb(at, len):tvb(), pinfo, tree, d, seen.call) end
		tree:add(message_len, d.length):set_generated()
	elseif m and m.whole_in == d.frame then
		local whole = ByteArray.new(m.text, true):tvb("Lend message")
		local sub = tree:add(lend, whole(), string.format("Message of %u fragments", #m.frame))
		sub:add(message_len, #m.text):set_generated()
		sub:add(message_fragments, #m.frame):set_generated()
		for _, frame in ipairs(m.frame) do sub:add(message_fragment, frame):set_generated() end
		add_message(whole, pinfo, tree, d, seen.call)
	elseif m and m.whole_in then
		tree:add(joined_in, m.whole_in):set_generated()
	end
end

local function add_trailer(tree, tvb, base_at, at, d)
	if at + TRAILER > tvb:captured_len() then return end
	local sub = tree:add(lend, tvb(at, TRAILER), "Trailer")
	local item = add_layout(sub, tvb, at, END)
	if not lend.prefs.checksum then return true end
	sums[d.frame] = sums[d.frame] or crc32c(tvb:raw(base_at, at - base_at))
	local good = sums[d.frame] == tvb(at, 4):le_uint()
	sub:add(crc_good, tvb(at, 4), good):set_generated()
	if not good then item.crc:add_proto_expert_info(CHECKSUM) end
	return good
end

-- Reads the call of a datagram or frame. Returns it in words, or "" for none.
local function read_call(d, call)
	d.call, d.served = "|" .. call, bit.band(d.flags, 0x08) ~= 0
	return call == 0 and "" or string.format("call %u.%u", bit.band(call, 0x3ff), bit.rshift(call, 10))
end

-- The common header in words.
local function read_head(tvb, at, pinfo, way)
	local d = {frame = pinfo.number, key = pinfo.number, kind = tvb(at + 2, 1):uint(), flags = tvb(at + 3, 1):uint(),
		number = tostring(tvb(at + 16, 8):le_uint64()), offset = tvb(at + 24, 4):le_uint(),
		length = tvb(at + 28, 4):le_uint(), carrier = way.carrier, way = way.carrier .. way[1], yaw = way.carrier .. way[2]}
	local call = read_call(d, tvb(at + 4, 4):le_uint())
	if bit.band(d.flags, 0x80) ~= 0 then -- sealed: the top byte of the number is the epoch
		d.epoch = tvb(at + 23, 1):uint()
		d.number = tostring(UInt64.new(tvb(at + 16, 4):le_uint(), bit.band(tvb(at + 20, 4):le_uint(), 0xffffff)))
	end
	d.to = d.carrier .. tostring(tvb(at + 8, 8):bytes())
	d.back = partner[d.to] or d.carrier .. "?" .. d.to -- the other direction
	d.name = KINDS[d.kind] or string.format("kind %u", d.kind)
	d.info = call == "" and d.name or d.name .. " " .. call
	return d
end

local function add_head(tree, tvb, at, d)
	local item = add_layout(tree, tvb, at, HEAD)
	add_bits(item.flags, tvb(at + 3, 1), FLAGS)
	add_bits(item.call, tvb(at + 4, 4), CALL)
	if d.kind == ACK or d.kind == PROBE then
		add_bits(item.offset, tvb(at + 24, 4), ACK_STATE)
		add_bits(item.length, tvb(at + 28, 4), ACK_FLAGS)
	end
end

-- Reads the block of a request or reply that ends at this offset.
local function read_block(tvb, at, d, item)
	if d.kind == REQUEST then d.method = tvb(at - 12, 4):le_uint() end
	if d.kind ~= REPLY then return end
	add_bits(item.ran, tvb(at - 15, 1), RAN_HOPS)
	d.status, d.acked = tvb(at - 16, 1):uint(), tostring(tvb(at - 8, 8):le_uint64())
end

-- The rest of a handshake's datagram from here on, which the session's patterns encrypt: text, and its tag.
local function add_sealed_rest(tree, tvb, at, finish)
	if at + TAG.size > math.min(finish, tvb:captured_len()) then return nil end
	local sub = tree:add(lend, tvb(at, finish - at), "Sealed by the handshake")
	if finish - TAG.size > at then sub:add(sealed_text, tvb(at, finish - TAG.size - at)) end
	add_layout(sub, tvb, finish - TAG.size, TAG)
	return finish
end

-- Whether a CONNECT or ACCEPT is of a sealed session, by its pattern, and not opened by lend decap, which clears the tag.
local function is_noise(tvb, at, finish, d)
	local tag_at = d.kind == CONNECT and finish or finish - TAG.size
	return (d.kind == CONNECT or d.kind == ACCEPT) and at + 17 <= tvb:captured_len() and tvb(at + 16, 1):uint() >= 2 and
		not (tag_at > at and tag_at + TAG.size <= tvb:captured_len() and tvb:raw(tag_at, TAG.size) == string.rep("\0", TAG.size))
end

-- The handshake of a sealed session; where it ends, or nil.
local function add_noise(tree, tvb, at, finish, d)
	local begin, item = at, nil
	for _, block in ipairs(d.kind == CONNECT and {CONNECT_1, COOKIE, TICKET} or {ACCEPT_1}) do
		item, at = add_layout(tree, tvb, at, block)
		if not item then return nil end
	end
	if d.kind == ACCEPT then d.hello = tostring(tvb(begin + 8, 8):bytes()) end
	d.noise = true
	return add_sealed_rest(tree, tvb, at, d.kind == CONNECT and finish + TAG.size or finish)
end

-- The block of its kind and the seen report; where the payload begins, or nil.
local function add_blocks(tree, tvb, at, finish, d)
	local begin, item = at, nil
	if is_noise(tvb, at, finish, d) then return add_noise(tree, tvb, at, finish, d) end
	d.rides = d.kind == CONNECT and d.call ~= "|0"
	for _, block in ipairs(PARTS[d.kind] or {BLOCKS[d.kind]}) do
		item, at = add_layout(tree, tvb, at, block)
		if not item then return nil end
	end
	if d.rides then
		item, at = add_layout(tree, tvb, at, BLOCKS[REQUEST])
		if not item then return nil end
	end
	if d.kind == ACCEPT then d.hello = tostring(tvb(begin + 8, 8):bytes()) end
	read_block(tvb, at, d, item)
	if d.kind ~= ACK and d.kind ~= PROBE and d.kind ~= RUNNING and bit.band(d.flags, 0x10) == 0 then return at end
	local next_at = at < tvb:captured_len() and add_seen(tree, tvb, at, d) or at
	return next_at > at and next_at or nil
end

-- Reads a frame as if it were a datagram of its own. Returns it, its tree, and its payload's offset; nil: not valid.
local function read_frame(tree, tvb, at, finish, d, index)
	local size, room = FRAME.size + BLOCKS[REPLY].size, math.min(finish, tvb:captured_len()) - at
	local sub = tree:add(lend, tvb(at, math.min(size, room)), "Frame")
	if room < size and d.cut then return nil end
	local len = room < size and 0 or tvb(at + 4, 2):le_uint()
	local whole = size + math.ceil(len / FRAME_ALIGN) * FRAME_ALIGN
	if index > FRAMES_MAX or whole > finish - at or bit.band(tvb(at + 6, 1):uint(), 0xf0) ~= 0 or tvb(at + 7, 1):uint() ~= 0 then
		sub:add_proto_expert_info(LENGTH)
		return nil
	end
	sub:set_len(math.min(whole, room))
	local f = setmetatable({key = d.frame .. "|" .. index, flags = tvb(at + 6, 1):uint(), length = len, next_at = at + whole,
		cut = size + len > room}, {__index = d})
	f.words = read_call(f, tvb(at, 4):le_uint())
	f.kind = f.served and REPLY or REQUEST
	sub:append_text(string.format(" %u: %s", index, f.words == "" and "withdrawn" or KINDS[f.kind] .. " " .. f.words))
	local item, block = add_layout(sub, tvb, at, FRAME)
	add_bits(item.call, tvb(at, 4), CALL)
	add_bits(item.flags, tvb(at + 6, 1), FLAGS)
	if f.words == "" then return f end
	item, at = add_layout(sub, tvb, block, BLOCKS[f.kind])
	read_block(tvb, at, f, item)
	if f.kind == REQUEST then _, at = add_layout(sub, tvb, at, REQUEST_END) end
	return f, sub, at
end

-- Adds the frames of CALLS up to the first faulty or cut one. The info column has their number, or the text of a single one.
local function add_frames(tree, tvb, pinfo, d, at, finish, to_learn)
	local n, index = {[REQUEST] = 0, [REPLY] = 0}, 0
	while at < math.min(finish, tvb:captured_len()) do
		index = index + 1
		local f, sub, begin = read_frame(tree, tvb, at, finish, d, index)
		if not f then break end
		if f.words ~= "" then
			n[f.kind] = n[f.kind] + 1
			pinfo.cols.info = string.format("%s, 1 %s, %s", d.name, KINDS[f.kind]:lower(), f.words)
			if to_learn then learn(f, pinfo, tvb, begin, f.length, not f.cut) end
			add_links(sub, f, by_frame[f.key] or {}, call_of(f))
			if not f.cut then add_payload(sub, tvb, pinfo, f, begin, f.length) end
		end
		at = f.next_at
	end
	local text = ""
	if n[REQUEST] > 0 then text = string.format(", %u request%s", n[REQUEST], n[REQUEST] > 1 and "s" or "") end
	if n[REPLY] > 0 then text = text .. string.format(", %u repl%s", n[REPLY], n[REPLY] > 1 and "ies" or "y") end
	tree:append_text(text)
	if n[REQUEST] + n[REPLY] ~= 1 then pinfo.cols.info = d.name .. text end
end

-- A datagram of which all but the head is encrypted, or at least bound by a tag. lend decap writes it in clear.
local function add_sealed(tree, tvb, pinfo, at, d)
	local base_at, finish = at, tvb:reported_len()
	local sub = tree:add(lend, tvb(at), string.format("Sealed: epoch %u, number %s", d.epoch, d.number))
	sub:add(sealed_epoch, tvb(at + 23, 1), d.epoch):set_generated()
	sub:add(sealed_number, tvb(at + 16, 8), UInt64.new(tvb(at + 16, 4):le_uint(), bit.band(tvb(at + 20, 4):le_uint(), 0xffffff))):set_generated()
	pinfo.cols.info = string.format("sealed %s, epoch %u, number %s", d.info, d.epoch, d.number)
	tree:append_text(", sealed")
	at = at + HEAD.size
	if finish < base_at + HEAD.size + TAG.size then
		tree:add_proto_expert_info(SHORT)
	elseif tvb:captured_len() < finish then
		tree:add_proto_expert_info(CUT)
	else
		if finish - TAG.size > at then sub:add(sealed_text, tvb(at, finish - TAG.size - at)) end
		add_layout(sub, tvb, finish - TAG.size, TAG)
	end
end

-- One datagram at an offset. way: sender and receiver, and the reverse. live: it was sent, and not only offered to a full
-- carrier.
local function dissect(tvb, at, pinfo, root, has_trailer, way, live)
	local base_at, captured, finish = at, tvb:captured_len(), tvb:reported_len() - (has_trailer and TRAILER or 0)
	local tree = root:add(lend, tvb(at))
	pinfo.cols.protocol = "Lend"
	if captured < at + HEAD.size then
		tree:add_proto_expert_info(captured < tvb:reported_len() and CUT or SHORT)
		return
	end
	local d = read_head(tvb, at, pinfo, way)
	pinfo.cols.info = d.info
	tree:append_text(": " .. d.info)
	add_head(tree, tvb, at, d)
	if tvb(at, 1):uint() ~= MAGIC or tvb(at + 1, 1):uint() ~= VERSION then
		tree:add_proto_expert_info(FOREIGN)
		return
	end
	if not KINDS[d.kind] or d.epoch and NEVER_SEALED[d.kind] or
		bit.band(d.flags, 0x60) ~= 0 and d.kind ~= REQUEST and d.kind ~= REPLY then
		tree:add_proto_expert_info(KIND)
		return
	end
	if d.epoch then return add_sealed(tree, tvb, pinfo, at, d) end
	local cut, end_at = captured < tvb:reported_len(), finish
	if d.kind == CONNECT then finish = finish - CONNECT_END.size end
	at = add_blocks(tree, tvb, at + HEAD.size, finish, d)
	if d.noise then finish = at end
	if not at or at > finish then
		tree:add_proto_expert_info(cut and CUT or SHORT)
		return
	end
	if d.noise and d.kind == CONNECT then
		_, finish = add_layout(tree, tvb, finish, MAC1)
		at = finish
	elseif d.kind == CONNECT then
		add_layout(tree, tvb, finish, CONNECT_END)
	end
	local good = not has_trailer or add_trailer(tree, tvb, base_at, end_at, d) or cut
	local len, carries = finish - at, d.kind == REQUEST or d.kind == REPLY or d.rides
	if d.kind == CALLS then carries = d.offset == 0 and len == d.length end
	if carries and (len > d.length - d.offset or (len == 0 and d.length > 0)) or not carries and len > 0 then
		tree:add_proto_expert_info(LENGTH)
		return
	end
	local to_learn = not pinfo.visited and live and good
	if to_learn then learn(d, pinfo, tvb, at, len, not cut) end
	if good then add_links(tree, d, by_frame[d.frame] or {}, call_of(d)) end
	if cut then tree:add_proto_expert_info(CUT) end
	if d.kind == CALLS and good then
		d.cut = cut
		add_frames(tree, tvb, pinfo, d, at, finish, to_learn)
	elseif not cut and carries and good then
		add_payload(tree, tvb, pinfo, d, at, len)
	end
end

function lend.dissector(tvb, pinfo, root)
	local source, destination = tostring(pinfo.src) .. " " .. pinfo.src_port, tostring(pinfo.dst) .. " " .. pinfo.dst_port
	dissect(tvb, 0, pinfo, root, true, {source .. ">" .. destination, destination .. ">" .. source,
		carrier = ""}, true)
end

-- An address column for carriers that have no IP.
local function name_ends(pinfo, out, peer)
	if tostring(pinfo.src) ~= "NONE" then return end
	local own = "this process"
	pinfo.cols.src, pinfo.cols.dst = out and own or peer, out and peer or own
end

function capture.dissector(tvb, pinfo, root)
	local tree = root:add(capture, tvb(0, math.min(LEAD.size, tvb:captured_len())))
	local item, at = add_layout(tree, tvb, 0, LEAD)
	if not item then
		tree:add_proto_expert_info(SHORT)
		return
	end
	add_bits(item.flags, tvb(2, 1), CHECKED)
	local event, text = tvb(1, 1):uint(), tvb(3, 1):uint()
	if at + text > tvb:captured_len() then
		tree:add_proto_expert_info(SHORT)
		return
	end
	local peer = text > 0 and tvb(at, text):string() or "peer " .. tvb(4, 4):le_uint()
	if text > 0 then tree:add(peer_text, tvb(at, text)) end
	name_ends(pinfo, event < 3, peer)
	tree:append_text(string.format(": %s %s", EVENTS[event] or event, peer))
	if EVENTS[event] == "GONE" then
		pinfo.cols.protocol, pinfo.cols.info = "Lend", "hung up: " .. peer
	else
		local live = EVENTS[event] == "SENT" or EVENTS[event] == "RECEIVED"
		if at + text < tvb:captured_len() then
			local index, out = tvb(4, 4):le_uint(), event < 3
			dissect(tvb, at + text, pinfo, root, bit.band(tvb(2, 1):uint(), 1) == 0,
				{(out and ">" or "<") .. index, (out and "<" or ">") .. index,
					carrier = tvb(8, 4):le_uint() .. "|"}, live)
		end
		if not live then pinfo.cols.info:prepend("not sent: ") end
	end
end

-- UDP of unknown origin: the first bytes, and the trailer's zeros unless it is sealed.
local function recognise(tvb, pinfo, root)
	local len = tvb:captured_len()
	if len < HEAD.size or tvb:reported_len() < HEAD.size + TRAILER or tvb(0, 1):uint() ~= MAGIC or
		tvb(1, 1):uint() ~= VERSION or not KINDS[tvb(2, 1):uint()] then
		return false
	end
	local sealed = bit.band(tvb(3, 1):uint(), 0x80) ~= 0
	if sealed and NEVER_SEALED[tvb(2, 1):uint()] then return false end
	if not sealed and len == tvb:reported_len() and tvb:raw(len - 12, 12) ~= string.rep("\0", 12) then return false end
	pinfo.conversation = lend
	lend.dissector(tvb, pinfo, root)
	return true
end
lend:register_heuristic("udp", recognise)
DissectorTable.get("udp.port"):add_for_decode_as(lend)
