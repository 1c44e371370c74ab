/* decap - writes a capture of sealed datagrams again, in clear, with the secrets of a key log.
 *
 * Blocks of the pcapng file are copied one by one. In a packet that the runtime captured
 * (io/capture/capture.h) a sealed datagram is opened in place. A comment has its epoch, or the
 * reason why it stays closed. Layer: apps. Threads: one. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "apps/commands.h"
#include "apps/common/options.h"
#include "apps/common/report.h"
#include "apps/sealed/key_log_read.h"
#include "io/capture/capture.h"
#include "io/capture/pcapng.h"
#include "rpc/keys.h"
#include "util/bits.h"
#include "util/crc32c.h"

enum {
	SECTION = 0x0a0d0d0a,
	INTERFACE = 1,
	PACKET = 6,
	ORDER_MARK = 0x1a2b3c4d,
	OPTION_END = 0,
	OPTION_COMMENT = 1,
	BLOCK_MAX = 1 << 20,
	DATA_AT = 28, /* offset of the data in a packet's block */
	TAG_END = 0,
	TAG_DISSECTOR = 12,
	INTERFACES_MAX = 1 << 16,
	HEAD = sizeof(struct lend_pkt),
	NOTE_MAX = 128,
};

struct args {
	const char *in, *out;
	bool json;
};

struct decap {
	FILE *in, *out;
	const char *in_path, *out_path;
	struct key_log *log;
	uint64_t packets, opened, no_key, wrong, cut; /* datagrams */
	uint32_t interfaces;                          /* number of interfaces in this section */
	uint8_t ours[INTERFACES_MAX / 8];             /* those of link type 252, by bit */
	uint8_t block[BLOCK_MAX + NOTE_MAX + 64];
};

static void write_all(struct decap *d, const void *data, size_t len)
{
	if (fwrite(data, 1, len, d->out) != len)
		app_die("%s: %s", d->out_path, strerror(errno));
}

/* Reads the next block. Returns its length; 0: the file has ended, if need be within a block. */
static uint32_t read_block(struct decap *d)
{
	uint32_t len;

	if (fread(d->block, 1, 12, d->in) != 12)
		return 0;
	len = lend_load_u32(d->block + 4);
	if (lend_load_u32(d->block) == SECTION && lend_load_u32(d->block + 8) != ORDER_MARK)
		app_die("%s: not a capture in this machine's byte order", d->in_path);
	if (len < 12 || len > BLOCK_MAX || len % 4)
		app_die("%s: not a pcapng file, or damaged", d->in_path);
	return fread(d->block + 12, 1, len - 12, d->in) == len - 12 ? len : 0;
}

static void note_interface(struct decap *d)
{
	if (d->interfaces == INTERFACES_MAX)
		app_die("%s: more than %d interfaces", d->in_path, INTERFACES_MAX);
	if (lend_load_u16(d->block + 8) == LEND_PCAPNG_UPPER_PDU)
		d->ours[d->interfaces / 8] |= (uint8_t)(1u << d->interfaces % 8);
	d->interfaces++;
}

static uint32_t load_be16(const uint8_t *at)
{
	return (uint32_t)at[0] << 8 | at[1];
}

/* Returns where the header of capture.h begins, behind the tags; 0: it is of another dissector. */
static uint32_t find_header(const uint8_t *data, uint32_t len)
{
	static const char name[] = LEND_CAPTURE_DISSECTOR;
	bool ours = false;

	for (uint32_t at = 0; at + 4 <= len;) {
		uint32_t tag = load_be16(data + at), size = load_be16(data + at + 2);

		at += 4;
		if (tag == TAG_END)
			return ours && at + LEND_CAPTURE_HEADER <= len ? at : 0;
		if (size > len - at)
			return 0;
		if (tag == TAG_DISSECTOR)
			ours = size == sizeof(name) - 1 && !memcmp(data + at, name, size);
		at += size;
	}
	return 0;
}

/* Returns where a CONNECT or ACCEPT of this length without trailer begins to be encrypted, and the
 * bytes before its tag in *len; 0: it is no such datagram, or in clear. */
static uint32_t find_message(const uint8_t *datagram, uint32_t whole, uint32_t *len)
{
	uint8_t kind = whole < HEAD ? 0 : datagram[offsetof(struct lend_pkt, kind)];
	uint32_t at, end;

	if (kind == LEND_PKT_CONNECT) {
		at = HEAD + (uint32_t)offsetof(struct lend_pkt_connect, params);
		end = (uint32_t)sizeof(struct lend_pkt_connect_end);
	} else if (kind == LEND_PKT_ACCEPT) {
		at = HEAD + (uint32_t)offsetof(struct lend_pkt_accept, params);
		end = LEND_TAG;
	} else {
		return 0;
	}
	if (datagram[0] != LEND_PKT_MAGIC || datagram[1] != LEND_PKT_VERSION || whole < at + end ||
	    datagram[HEAD + offsetof(struct lend_pkt_connect, pattern)] < LEND_PATTERN_NN)
		return 0;
	*len = whole - at - end;
	return at;
}

/* Opens what a handshake's datagram encrypts. Returns whether there is a remark, in text. */
static bool open_message(struct decap *d, uint8_t *datagram, uint32_t len, bool checked,
			 char text[NOTE_MAX])
{
	struct lend_pkt_trailer trailer = {0};
	uint32_t whole = checked || len < sizeof(trailer) ? len : len - (uint32_t)sizeof(trailer);
	uint32_t size, at = find_message(datagram, whole, &size);

	if (!at || key_log_open_message(d->log, datagram + at, size) != KEY_LOG_OPENED)
		return false;
	d->opened++;
	(void)snprintf(text, NOTE_MAX, "was sealed by the handshake");
	trailer.crc = lend_crc32c(0, datagram, whole);
	if (whole != len)
		memcpy(datagram + whole, &trailer, sizeof(trailer));
	return true;
}

/* Opens a datagram. flags: of its capture header. Returns whether there is a remark, in text. */
static bool open_datagram(struct decap *d, uint8_t *datagram, uint32_t len, bool cut,
			  uint8_t *flags, char text[NOTE_MAX])
{
	static const char *const suites[LEND_SUITES] = {"?", "AES-128-GCM", "ChaCha20-Poly1305"};
	uint64_t epoch = 0;
	uint8_t suite = 0;

	d->packets++;
	if (!lend_reopen_sealed(datagram, len))
		return !cut && open_message(d, datagram, len, *flags & LEND_CAPTURE_CHECKED, text);
	if (cut) {
		d->cut++;
		(void)snprintf(text, NOTE_MAX, "sealed; cut by the capture's snap length");
		return true;
	}
	switch (key_log_open(d->log, datagram, len, &epoch, &suite)) {
	case KEY_LOG_OPENED:
		/* It ends with a CRC32C now, on a carrier that detects corruption as well. */
		*flags &= (uint8_t)~LEND_CAPTURE_CHECKED;
		d->opened++;
		(void)snprintf(text, NOTE_MAX, "was sealed: %s, epoch %" PRIu64, suites[suite],
			       epoch);
		break;
	case KEY_LOG_NONE:
		d->no_key++;
		(void)snprintf(text, NOTE_MAX, "sealed; its session is not in the key log");
		break;
	case KEY_LOG_WRONG:
		d->wrong++;
		(void)snprintf(text, NOTE_MAX, "sealed; wrong tag: forged or damaged");
		break;
	}
	return true;
}

/* Appends a comment to the options of a packet's block. Returns the block's new length. */
static uint32_t add_comment(uint8_t *block, uint32_t len, uint32_t options, const char *text)
{
	uint32_t at = options, size = (uint32_t)strlen(text);

	while (at + 4 <= len - 4 && lend_load_u16(block + at) != OPTION_END)
		at += 4 + ((uint32_t)lend_load_u16(block + at + 2) + 3) / 4 * 4;
	if (at > len - 4)
		return len; /* faulty options stay as they are */
	memset(block + at, 0, 4 + (size + 3) / 4 * 4 + 4);
	lend_store_u16(block + at, OPTION_COMMENT);
	lend_store_u16(block + at + 2, (uint16_t)size);
	memcpy(block + at + 4, text, size);
	len = at + 4 + (size + 3) / 4 * 4 + 4 + 4;
	lend_store_u32(block + 4, len);
	lend_store_u32(block + len - 4, len);
	return len;
}

/* Opens the datagram of a packet's block. Returns the block's new length. */
static uint32_t open_packet(struct decap *d, uint32_t len)
{
	uint32_t interface = lend_load_u32(d->block + 8), kept, size, at;
	uint8_t *data = d->block + DATA_AT;
	char text[NOTE_MAX];

	if (len < DATA_AT + 4 || interface >= d->interfaces ||
	    !(d->ours[interface / 8] >> interface % 8 & 1))
		return len;
	kept = lend_load_u32(d->block + 20);
	size = lend_load_u32(d->block + 24);
	if (kept > len - DATA_AT - 4)
		app_die("%s: not a pcapng file, or damaged", d->in_path);
	at = find_header(data, kept);
	if (!at || data[at + 1] == LEND_CAPTURE_GONE ||
	    at + LEND_CAPTURE_HEADER + data[at + 3] > kept)
		return len;
	if (!open_datagram(d, data + at + LEND_CAPTURE_HEADER + data[at + 3],
			   kept - at - LEND_CAPTURE_HEADER - data[at + 3], kept < size,
			   &data[at + 2], text))
		return len;
	return add_comment(d->block, len, DATA_AT + (kept + 3) / 4 * 4, text);
}

static void copy_blocks(struct decap *d)
{
	uint32_t len;
	bool any = false;

	while ((len = read_block(d))) {
		if (!any && lend_load_u32(d->block) != SECTION)
			break;
		any = true;
		switch (lend_load_u32(d->block)) {
		case SECTION:
			d->interfaces = 0;
			memset(d->ours, 0, sizeof(d->ours));
			break;
		case INTERFACE:
			note_interface(d);
			break;
		case PACKET:
			len = open_packet(d, len);
			break;
		default:
			break;
		}
		write_all(d, d->block, len);
	}
	if (!any)
		app_die("%s: not a pcapng file", d->in_path);
}

static void open_files(struct decap *d)
{
	struct stat in, out;
	int fd;

	d->in = fopen(d->in_path, "re");
	if (!d->in)
		app_die("%s: %s", d->in_path, strerror(errno));
	if (fstat(fileno(d->in), &in) == 0 && stat(d->out_path, &out) == 0 &&
	    in.st_dev == out.st_dev && in.st_ino == out.st_ino)
		app_bad("%s is the capture itself; give another file with -o", d->out_path);
	fd = open(d->out_path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	d->out = fd < 0 ? NULL : fdopen(fd, "w");
	if (!d->out)
		app_die("%s: %s", d->out_path, strerror(errno));
}

/* Returns the usual name of the output: NAME.clear.pcapng. */
static const char *usual_name(const char *in)
{
	static const char suffix[] = ".pcapng";
	size_t len = strlen(in), cut = sizeof(suffix) - 1;
	char *name;

	if (len > cut && !strcmp(in + len - cut, suffix))
		len -= cut;
	if (asprintf(&name, "%.*s.clear%s", (int)len, in, suffix) < 0)
		app_die("no memory for a name");
	return name;
}

static void report_counts(const struct decap *d, bool json)
{
	struct app_report r;

	app_report_begin(&r, json, d->out_path);
	if (json)
		app_report_text(&r, "file", d->out_path, "");
	app_report_int(&r, "datagrams", d->packets, "datagrams");
	app_report_int(&r, "opened", d->opened, "were sealed, and are in clear now");
	app_report_int(&r, "no_key", d->no_key, "of sessions that the key log lacks");
	app_report_int(&r, "wrong_tag", d->wrong, "with a wrong tag: forged or damaged");
	app_report_int(&r, "cut", d->cut, "cut by the capture's snap length");
	app_report_end(&r);
}

static const struct lend_option options[] = {
    OPT_WORD(struct args, in),
    OPT_TEXT(struct args, out, "output", "FILE",
	     "Write here: IN with .clear before its suffix unless given", .key = 'o'),
    OPT_JSON(struct args, json),
    {.name = NULL}};

static const char doc[] =
    "Decrypts a capture of sealed sessions, for Wireshark and tshark.\v"
    "A capture has the bytes of the wire. --key-log FILE has the secrets of its sessions, if their "
    "program ran with the same option or with LEND_KEY_LOG. Datagrams of other sessions stay as "
    "they are. A comment on each packet says what was done.\n\n"
    "Exit status: 0 done; 1 a file cannot be read or written, or no sealed datagram could be "
    "opened; 2 the command line makes no sense.\n\n"
    "  lend ping udp:10.0.0.2:31850 --capture c.pcapng --key-log c.keys\n"
    "  lend decap c.pcapng --key-log c.keys && wireshark -X lua_script:lend.lua "
    "c.clear.pcapng\n"
    "  lend decap c.pcapng -o clear.pcapng --key-log c.keys --json";

int app_decap(int argc, char **argv)
{
	static const struct lend_syntax syntax = {
	    .option = options, .words = "IN.pcapng", .doc = doc};
	static struct decap d;
	struct args args = {.in = NULL};
	const struct lend_seal_ops *ops;
	const char *log;

	app_options_read(&syntax, argc, argv, &args);
	log = getenv("LEND_KEY_LOG");
	if (!args.in)
		app_bad("no capture; give a pcapng file: lend decap c.pcapng --key-log c.keys");
	if (!log || !*log)
		app_bad("no secrets; give the file that the captured program wrote: --key-log "
			"FILE");
	if (lend_keys_seal(&ops) < 0)
		app_die("%s", lend_why());
	d.in_path = args.in;
	d.out_path = args.out ? args.out : usual_name(args.in);
	d.log = key_log_read(log, ops);
	open_files(&d);
	copy_blocks(&d);
	if (fclose(d.out) != 0)
		app_die("%s: %s", d.out_path, strerror(errno));
	fclose(d.in);
	key_log_close(d.log);
	report_counts(&d, args.json);
	return d.opened || d.no_key + d.wrong + d.cut == 0 ? APP_EXIT_OK : APP_EXIT_FAILED;
}
