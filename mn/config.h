/* config - the options of a memory node, from its command line.
 * Layer: mn. */
#ifndef MN_CONFIG_H
#define MN_CONFIG_H

#include <stdbool.h>
#include <stdint.h>

struct mn_config {
	const char *listen;     /* addresses, comma separated */
	const char *eal;        /* DPDK's arguments, or NULL */
	uint64_t size;          /* bytes of pages */
	uint32_t page;          /* bytes per page */
	const char *memory;     /* where pages are stored: a kind of mn/memory.h */
	bool populate;          /* take all pages from the system at the start */
	bool overwrite;         /* replace an existing file, even with other contents */
	const char *pool;       /* name of the pool to offer, or NULL: mn_pool_plan() */
	uint64_t lease_ms;      /* 0: the store's default */
	uint32_t id;            /* id of the node; 0: random */
	uint32_t clients;       /* 0: the store's default */
	uint64_t quarantine_ms; /* time in quarantine of freed pages */
	bool yields;            /* use pages in quarantine when no others are free */
	bool checksum;          /* whether each page has a checksum */
	const char *quota;      /* rules of quotas as in mn/tenants.h, or NULL */
	uint32_t workers;       /* 1 .. 64 */
	bool pin;               /* pin each worker to a processor of its own */
	const char *capture;    /* path of a capture file, as in lend_config */
	uint64_t capture_limit;
	bool json;
	bool keep;           /* see mn/fdstore.h */
	const char *admin;   /* path of the socket, or NULL */
	const char *metrics; /* PORT or IP:PORT, or NULL */
	uint32_t drain_ms;   /* time for replies in flight at shutdown */
	const char *file;    /* file that options were read from, or NULL */
};

/* Reads the command line. Prints a text and exits on a request for help or an invalid option. */
void mn_config_read(struct mn_config *config, int argc, char **argv);

#endif
