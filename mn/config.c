#include "mn/config.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mn/config_file.h"
#include "mn/memory.h"
#include "sys/cli.h"
#include "util/bits.h"
#include "wire/memop.h"

static const char doc[] =
    "A memory node: stores pages for the processes that connect to it.\v"
    "Prints one line with its address on standard output when it is ready, and leaves cleanly on "
    "SIGTERM and SIGINT.\n\n"
    "Examples:\n"
    "  lend-mn --listen shm:mn0 --size 1G            for the processes of this host and user\n"
    "  lend-mn --listen udp:0.0.0.0:7000 --size 16G  for a network; tokens travel in clear\n"
    "  lend-mn --listen shm:mn0,udp:127.0.0.1:0 --size 256M --lease 5000\n"
    "  lend-mn --listen udp:0.0.0.0:7000 --size 16G --workers 4   at ports 7000 to 7003\n"
    "  lend-mn --listen pool:mn0 --size 64G --page 64K             for large objects\n"
    "  lend-mn --listen shm:mn0 --size 1G --json     counters as one JSON line at the end\n"
    "  lend-mn --listen shm:mn0 --size 8G --quota each:1G,uid=1000:4G   what users may keep\n"
    "  lend-mn --config /etc/lend/mn.yaml --size 2G  the rest from a file: lend.yaml(5)";

static const struct argp_option options[] = {
    {"listen", 'l', "ADDR[,ADDR...]", 0,
     "Address to serve at: shm:NAME, udp:HOST:PORT (port 0 picks one), dpdk:...; pool:NAME is "
     "shm:NAME, "
     "and its clients map the pages themselves",
     0},
    {"size", 's', "BYTES", 0, "Memory to lend; K, M, G and T are powers of 1024 (default 1G)", 0},
    {"page", 'P', "BYTES", 0,
     "Size of a page: a power of two from 4K (default) to 2M. What is stored takes whole pages, "
     "and "
     "the first write to a shared page copies it",
     0},
    {"memory", 'm', "KIND", 0,
     "Memory for pages: private (default), shared (clients over shm read it in place), memfd, huge "
     "(a memfd on huge pages), or the path of a "
     "folder (hugetlbfs, DAX), a file or a DAX device. A file must be this user's alone, and new, "
     "empty or left by an earlier memory node",
     0},
    {"overwrite", 'O', NULL, 0, "Replace the file that --memory names, even if other data is in it",
     0},
    {"lease", 'e', "MS", 0, "How long a silent process keeps what it holds (default 30000)", 0},
    {"id", 'i', "N", 0, "Number of this node, in 0x hex or decimal (default: random)", 0},
    {"clients", 'c', "N", 0, "Clients at once (default 256)", 0},
    {"quarantine", 'Q', "MS", 0,
     "How long a freed page is not reused, even when no other is free; 0: reuse at once (default "
     "1, unless pages run short)",
     0},
    {"checksum", 'S', NULL, 0,
     "Store a checksum of each page and check it on each read: damaged pages end in DATA_LOSS", 0},
    {"quota", 'q', "WHO:BYTES[:REFS[:CLIENTS]],...", 0,
     "Limit per tenant. WHO: each (user of this host on shm; the network is one), uid=N, net, "
     "secret=FILE (processes that prove the secret in its first line); -: no limit",
     0},
    {"keys", 'K', "FILE", 0,
     "Keys that peers prove, from lend keygen (default $LEND_KEYS, ~/.config/lend/keys)", 0},
    {"workers", 'w', "N", 0,
     "Threads, each with its part of the memory and its own address, NAME.1 or PORT + 1 and so on; "
     "clients find them (default 1)",
     0},
    {"pin", 'p', NULL, 0, "Keep each worker on a processor of its own", 0},
    {"eal", 'E', "ARGS", 0, "Arguments of DPDK's environment, for dpdk addresses", 0},
    {"capture", 'C', "FILE", 0, "Write every datagram to this pcapng file", 0},
    {"capture-limit", 'L', "BYTES", 0, "Bytes of it; then it becomes FILE.1", 0},
    {"json", 'j', NULL, 0, "Print the counters as JSON at the end", 0},
    {"config", 'f', "FILE", 0, "Read options from this YAML file; the command line wins", 0},
    {"keep", 'k', NULL, 0,
     "Lose nothing over a restart or a crash: pages and tables lie in files that the service "
     "manager keeps (systemd: FileDescriptorStoreMax=)",
     0},
    {"admin", 'a', "PATH", 0,
     "A socket for lend mem ls, top and evict; only this user and root may speak to it", 0},
    {"metrics", 'M', "[IP:]PORT", 0,
     "Counters for Prometheus at http://IP:PORT/metrics (IP 127.0.0.1 unless said; port 0 picks "
     "one)",
     0},
    {"drain", 'd', "MS", 0,
     "After SIGTERM: how long replies in flight may take (default 1000); a second signal ends it",
     0},
    {0},
};

/* File and line of the current option; empty: the command line. */
static char where[512];

static void add_complaint(const char *format, ...) __attribute__((noreturn, format(printf, 1, 2)));
static void add_complaint(const char *format, ...)
{
	char text[512];
	va_list args;

	va_start(args, format);
	(void)vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	lend_cli_bad("lend-mn", "%s%s", where, text);
}

static uint64_t parse_number(const char *what, const char *text, uint64_t max, bool units)
{
	static const char unit[] = "KMGT";
	uint64_t n;
	char *end;
	const char *u;

	errno = 0;
	n = strtoull(text, &end, 0);
	u = units && *end ? strchr(unit, *end >= 'a' ? *end - 32 : *end) : NULL;
	if (u) {
		unsigned shift = 10 * (unsigned)(u - unit + 1);

		n = n > UINT64_MAX >> shift ? UINT64_MAX : n << shift;
		end++;
	}
	if (errno || end == text || *end || *text == '-' || n < 1 || n > max)
		add_complaint("--%s %s: give a number from 1 to %llu%s", what, text,
			      (unsigned long long)max, units ? ", or one like 256M or 1G" : "");
	return n;
}

static error_t parse_option(int key, char *arg, struct argp_state *state);

/* Applies a line of the file. Options of the command line take precedence. */
static void apply_line(uint32_t option, char *value, unsigned line, void *arg)
{
	struct argp_state *state = arg;
	struct mn_config *config = state->input;
	const struct argp_option *o = &options[option];
	bool on = !strcmp(value, "true") || !strcmp(value, "yes") || !strcmp(value, "on");
	bool off = !strcmp(value, "false") || !strcmp(value, "no") || !strcmp(value, "off");

	if (config->given >> option & 1)
		return;
	(void)snprintf(where, sizeof(where), "%s:%u: ", config->file, line);
	if (!o->arg && !on && !off)
		add_complaint("%s: %s: give true or false", o->name, value);
	if (o->arg || on)
		(void)parse_option(o->key, o->arg ? value : NULL, state);
	where[0] = 0;
}

/* Runs after the whole command line was read. */
static void end_options(struct argp_state *state)
{
	struct mn_config *config = state->input;

	if (config->file)
		mn_config_file(config->file, options, "config", apply_line, state);
	if (!config->listen || !config->listen[strspn(config->listen, ", ")])
		add_complaint("no address to serve at; give one, as in --listen shm:mn0");
}

static void note_given(struct mn_config *config, int key)
{
	for (unsigned i = 0; !where[0] && options[i].name; i++)
		if (options[i].key == key)
			config->given |= UINT64_C(1) << i;
}

static error_t parse_option(int key, char *arg, struct argp_state *state)
{
	struct mn_config *config = state->input;

	note_given(config, key);
	switch (key) {
	case 'l':
		config->listen = arg;
		return 0;
	case 's':
		config->size = parse_number("size", arg, UINT64_C(1) << 44, true);
		return 0;
	case 'P':
		config->page = (uint32_t)parse_number("page", arg, LEND_MEM_PAGE_MAX, true);
		if (config->page < LEND_MEM_PAGE || !lend_is_pow2(config->page))
			add_complaint("--page %s: give a power of two from 4K to 2M", arg);
		return 0;
	case 'm':
		if (!mn_memory_is_kind(arg))
			add_complaint("--memory %s: give private, shared, memfd, huge or a path",
				      arg);
		config->memory = arg;
		return 0;
	case 'O':
		config->overwrite = true;
		return 0;
	case 'e':
		config->lease_ms = parse_number("lease", arg, 86400000, false);
		return 0;
	case 'i':
		config->id = (uint32_t)parse_number("id", arg, UINT32_MAX, false);
		return 0;
	case 'c':
		config->clients = (uint32_t)parse_number("clients", arg, 65535, false);
		return 0;
	case 'Q':
		config->quarantine_ms =
		    strcmp(arg, "0") ? parse_number("quarantine", arg, 3600000, false) : 0;
		config->yields = false;
		return 0;
	case 'S':
		config->checksum = true;
		return 0;
	case 'q':
		config->quota = arg;
		return 0;
	case 'w':
		config->workers =
		    (uint32_t)parse_number("workers", arg, LEND_MEMREF_WORKERS_MAX, false);
		return 0;
	case 'p':
		config->pin = true;
		return 0;
	case 'E':
		config->eal = arg;
		return 0;
	case 'K':
		return setenv("LEND_KEYS", arg, 1) ? ENOMEM : 0;
	case 'C':
		config->capture = arg;
		return 0;
	case 'L':
		config->capture_limit = parse_number("capture-limit", arg, UINT64_C(1) << 40, true);
		return 0;
	case 'j':
		config->json = true;
		return 0;
	case 'f':
		config->file = arg;
		return 0;
	case 'a':
		config->admin = arg;
		return 0;
	case 'M':
		config->metrics = arg;
		return 0;
	case 'k':
		config->keep = true;
		return 0;
	case 'd':
		config->drain_ms = (uint32_t)parse_number("drain", arg, 3600000, false);
		return 0;
	case ARGP_KEY_ARG:
		add_complaint("%s: unexpected argument; addresses follow --listen", arg);
		return 0;
	case ARGP_KEY_END:
		end_options(state);
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

void mn_config_read(struct mn_config *config, int argc, char **argv)
{
	static const struct argp argp = {.options = options, .parser = parse_option, .doc = doc};

	*config = (struct mn_config){.size = UINT64_C(1) << 30,
				     .page = LEND_MEM_PAGE,
				     .memory = "private",
				     .workers = 1,
				     .quarantine_ms = 1,
				     .yields = true,
				     .drain_ms = 1000};
	lend_cli_parse(&argp, "lend-mn", "lend-mn " LEND_VERSION, argc, argv, config);
}
