#include "mn/config.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/numa.h"
#include "mn/config_file.h"
#include "mn/memory.h"
#include "util/bits.h"
#include "wire/memop.h"

#define PROGRAM "lend-mn"

static const char doc[] =
    "A memory node: stores pages for the processes that connect to it.\v"
    "Prints one line with its address on standard output when it is ready, and leaves cleanly on "
    "SIGTERM and SIGINT.\n\n"
    "Examples:\n"
    "  lend-mn --listen shm:mn0 --size 1G            for the processes of this host and user\n"
    "  lend-mn --listen udp:0.0.0.0:7000 --size 16G  for a network; tokens travel in clear\n"
    "  lend-mn --listen shm:mn0,udp:127.0.0.1:0 --size 256M --lease 5000\n"
    "  lend-mn --listen udp:0.0.0.0:7000 --size 16G --workers 4   at ports 7000 to 7003\n"
    "  lend-mn --listen udp:0.0.0.0:7000 --size 16G --numa 1      on NUMA node 1\n"
    "  lend-mn --listen pool:mn0 --size 64G --page 64K             for large objects\n"
    "  lend-mn --listen shm:mn0 --size 1G --json     counters as one JSON line at the end\n"
    "  lend-mn --listen shm:mn0 --size 8G --quota each:1G,uid=1000:4G   what users may keep\n"
    "  lend-mn --config /etc/lend/mn.yaml --size 2G  the rest from a file: lend.yaml(5)";

static void take_page(const struct lend_option *option, void *args, char *value)
{
	struct mn_config *config = args;

	config->page =
	    (uint32_t)lend_cli_size(option->name, value, LEND_MEM_PAGE, LEND_MEM_PAGE_MAX);
	if (!lend_is_pow2(config->page))
		lend_cli_bad("--page %s: give a power of two from 4K to 2M", value);
}

static void take_memory(const struct lend_option *option, void *args, char *value)
{
	(void)option;
	if (!mn_memory_is_kind(value))
		lend_cli_bad("--memory %s: give private, shared, memfd, huge or a path", value);
	((struct mn_config *)args)->memory = value;
}

static void take_quarantine(const struct lend_option *option, void *args, char *value)
{
	struct mn_config *config = args;

	config->quarantine_ms = lend_cli_u64(option->name, value, 0, 3600000);
	config->yields = false;
}

/* For the library: --keys as LEND_KEYS, --key-log as LEND_KEY_LOG. */
static void export_value(const struct lend_option *option, void *args, char *value)
{
	(void)args;
	if (setenv(!strcmp(option->name, "keys") ? "LEND_KEYS" : "LEND_KEY_LOG", value, 1) != 0)
		lend_cli_bad("--%s: %s", option->name, strerror(errno));
}

static const struct lend_option options[] = {
    OPT_TEXT(struct mn_config, listen, "listen", "ADDR[,ADDR...]",
	     "Address to serve at: shm:NAME, udp:HOST:PORT (port 0 picks one), dpdk:...; pool:NAME "
	     "is shm:NAME, and its clients map the pages themselves",
	     .key = 'l'),
    OPT_SIZE(struct mn_config, size, "size", 1, UINT64_C(1) << 44,
	     "Memory to lend; K, M, G and T are powers of 1024 (default 1G)", .key = 's'),
    OPT_TAKEN("page", "BYTES", take_page,
	      "Size of a page: a power of two from 4K (default) to 2M. What is stored takes whole "
	      "pages, and the first write to a shared page copies it",
	      .key = 'P'),
    OPT_TAKEN("memory", "KIND", take_memory,
	      "Memory for pages: private (default), shared (clients over shm read it in place), "
	      "memfd, huge (a memfd on huge pages), or the path of a folder (hugetlbfs, DAX), a "
	      "file or a DAX device. A file must be this user's alone, and new, empty or left by "
	      "an earlier memory node",
	      .key = 'm'),
    OPT_FLAG(struct mn_config, populate, "populate",
	     "Take all memory from the system at the start, not at the first write to each page",
	     .key = 'F'),
    OPT_FLAG(struct mn_config, overwrite, "overwrite",
	     "Replace the file that --memory names, even if other data is in it", .key = 'O'),
    OPT_VALUE(struct mn_config, lease_ms, NUMBER, "lease", "MS",
	      "How long a silent process keeps what it holds (default 30000)", .key = 'e', .min = 1,
	      .max = 86400000),
    OPT_NUMBER(struct mn_config, id, "id", 1, UINT32_MAX,
	       "Number of this node, in 0x hex or decimal (default: random)", .key = 'i'),
    OPT_NUMBER(struct mn_config, clients, "clients", 1, 65535, "Clients at once (default 256)",
	       .key = 'c'),
    OPT_TAKEN("quarantine", "MS", take_quarantine,
	      "How long a freed page is not reused, even when no other is free; 0: reuse at once "
	      "(default 1, unless pages run short)",
	      .key = 'Q'),
    OPT_FLAG(
	struct mn_config, checksum, "checksum",
	"Store a checksum of each page and check it on each read: damaged pages end in DATA_LOSS",
	.key = 'S'),
    OPT_TEXT(struct mn_config, quota, "quota", "WHO:BYTES[:REFS[:CLIENTS]],...",
	     "Limit per tenant. WHO: each (user of this host on shm; the network is one), uid=N, "
	     "net, secret=FILE (processes that prove the secret in its first line), tenant=NAME "
	     "(of keys of that tenant); -: no limit",
	     .key = 'q'),
    OPT_TAKEN("keys", "FILE", export_value,
	      "Keys that peers prove, from lend keygen (default $LEND_KEYS, ~/.config/lend/keys)",
	      .key = 'K'),
    OPT_NUMBER(struct mn_config, workers, "workers", 1, LEND_MEMREF_WORKERS_MAX,
	       "Threads, each with its part of the memory and its own address, NAME.1 or PORT + 1 "
	       "and so on; clients find them (default 1)",
	       .key = 'w'),
    OPT_FLAG(struct mn_config, pin, "pin", "Keep each worker on a processor of its own",
	     .key = 'p'),
    OPT_NUMA(lend_numa_take),
    OPT_TEXT(struct mn_config, eal, "eal", "ARGS",
	     "Arguments of DPDK's environment, for dpdk addresses", .key = 'E'),
    OPT_TEXT(struct mn_config, capture, "capture", "FILE",
	     "Write every datagram to this pcapng file", .key = 'C'),
    OPT_SIZE(struct mn_config, capture_limit, "capture-limit", 1, UINT64_C(1) << 40,
	     "Bytes of it; then it becomes FILE.1", .key = 'L'),
    OPT_TAKEN("key-log", "FILE", export_value,
	      "Append the secrets of sealed sessions, for lend decap (default $LEND_KEY_LOG)"),
    OPT_FLAG(struct mn_config, json, "json", "Print the counters as JSON at the end", .key = 'j'),
    OPT_TEXT(struct mn_config, file, "config", "FILE",
	     "Read options from this YAML file; the command line wins", .key = 'f'),
    OPT_FLAG(struct mn_config, keep, "keep",
	     "Lose nothing over a restart or a crash: pages and tables lie in files that the "
	     "service manager keeps (systemd: FileDescriptorStoreMax=)",
	     .key = 'k'),
    OPT_TEXT(struct mn_config, admin, "admin", "PATH",
	     "A socket for lend mem ls, top and evict; only this user and root may speak to it",
	     .key = 'a'),
    OPT_TEXT(struct mn_config, metrics, "metrics", "[IP:]PORT",
	     "Counters for Prometheus at http://IP:PORT/metrics (IP 127.0.0.1 unless said; port 0 "
	     "picks one)",
	     .key = 'M'),
    OPT_VALUE(struct mn_config, drain_ms, NUMBER, "drain", "MS",
	      "After SIGTERM: how long replies in flight may take (default 1000); a second signal "
	      "ends it",
	      .key = 'd', .min = 1, .max = 3600000),
    {.name = NULL}};

/* Applies a line of the file. */
static void apply_line(uint32_t i, char *value, unsigned line, void *arg)
{
	struct mn_config *config = arg;
	bool on = !strcmp(value, "true") || !strcmp(value, "yes") || !strcmp(value, "on");
	bool off = !strcmp(value, "false") || !strcmp(value, "no") || !strcmp(value, "off");
	char where[512];

	(void)snprintf(where, sizeof(where), ": %s:%u", config->file, line);
	lend_cli_name_set(PROGRAM, where);
	if (!options[i].value && !on && !off)
		lend_cli_bad("%s: %s: give true or false", options[i].name, value);
	if (options[i].value || on)
		lend_option_set(&options[i], config, value);
	lend_cli_name_set(PROGRAM, "");
}

void mn_config_read(struct mn_config *config, int argc, char **argv)
{
	static const struct lend_syntax syntax = {
	    .option = options, .doc = doc, .version = PROGRAM " " LEND_VERSION};

	*config = (struct mn_config){.size = UINT64_C(1) << 30,
				     .page = LEND_MEM_PAGE,
				     .memory = "private",
				     .workers = 1,
				     .quarantine_ms = 1,
				     .yields = true,
				     .drain_ms = 1000};
	lend_cli_name_set(PROGRAM, "");
	lend_options_read(&syntax, NULL, argc, argv, config);
	if (config->file) { /* the command line, read again, takes precedence over the file */
		mn_config_file(config->file, options, "config", apply_line, config);
		lend_options_read(&syntax, NULL, argc, argv, config);
	}
	if (!config->listen || !config->listen[strspn(config->listen, ", ")])
		lend_cli_bad("no address to serve at; give one, as in --listen shm:mn0");
}
