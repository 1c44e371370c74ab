/* topology - which process calls which, and their addresses over each carrier.
 *
 * The starting process adds all processes, itself included, links each client to its servers, and
 * plans. Then it starts servers before their clients, and stores the address of each ready line in
 * the net.
 *
 *	app_net_init(&net, APP_UDP);
 *	me = app_net_add(&net), hop = app_net_add(&net);
 *	app_net_link(&net, me, hop);
 *	app_net_plan(&net);
 *	...start hop with app_net_listen(&net, hop) and app_net_eal(&net, hop)...
 *	app_net_ready(&net, hop, address);
 *	lend_connect(ep, app_net_address(&net, me, hop), &session);
 *
 * Layer: apps. Threads: none. Lives by value in its owner; nothing to release. */
#ifndef APPS_COMMON_TOPOLOGY_H
#define APPS_COMMON_TOPOLOGY_H

#include <stdbool.h>
#include <stdint.h>
#include <stddef.h>

enum app_carrier { APP_SHM, APP_UDP, APP_DPDK_MEMIF, APP_DPDK_RING, APP_GIVEN };
/* Convert between carriers and the names "shm", "udp", "dpdk:memif", "dpdk:ring" (parsed also
 * as "dpdk-memif", "dpdk-ring"). Any other valid text is an address, APP_GIVEN: the listening
 * address of each process, then optionally a blank and EAL's arguments. %p in either stands for the
 * process's number, from 1: "udp:[::1]:0", "verbs:rxe0@10.77.0.1:0",
 * "dpdk:net_af_packet0@10.0.0.%p:0 --vdev=net_af_packet0,iface=veth%p". Parsing returns false for
 * anything else. */
const char *app_carrier_name(enum app_carrier carrier);
/* Returns the level of its sessions: none, authenticate or encrypt. */
const char *app_carrier_level(enum app_carrier carrier);
/* Returns whether endpoints of one process have a queue each, or the address asks for queues. */
bool app_carrier_scales(enum app_carrier carrier);
/* Adds the carrier, and how its datagrams are protected. */
struct app_report;
void app_report_carrier(struct app_report *report, enum app_carrier carrier);
bool app_carrier_parse(const char *text, enum app_carrier *carrier);
/* Returns the carrier for the address of a server that the user started. */
enum app_carrier app_carrier_of(const char *address);

enum { APP_PROCS_MAX = 32, APP_LINKS_MAX = 96, APP_ADDRESS_MAX = 128, APP_EAL_MAX = 1536 };

struct app_net {
	enum app_carrier carrier;
	uint32_t page;       /* page size of started memory nodes in bytes; 0: their default */
	bool populate;       /* started memory nodes take all memory at the start */
	const char *memory;  /* --memory of started memory nodes; NULL: their default */
	const char *metrics; /* --metrics of started memory nodes; NULL: none */
	uint32_t workers;    /* threads of started memory nodes; 0: one */
	unsigned procs, links;
	struct {
		unsigned char client, server;
	} link[APP_LINKS_MAX]; /* by process; a server of a link must listen */
	char listen[APP_PROCS_MAX][APP_ADDRESS_MAX]; /* "": only a client */
	char eal[APP_PROCS_MAX][APP_EAL_MAX];        /* "": none needed */
	char address[APP_PROCS_MAX]
		    [APP_ADDRESS_MAX]; /* where clients reach it, known when it is ready */
};

void app_net_init(struct app_net *net, enum app_carrier carrier);
/* Adds a process; returns its number, from 0. */
unsigned app_net_add(struct app_net *net);
void app_net_link(struct app_net *net, unsigned client, unsigned server);
/* Fills listen and eal of every process, with names unique to this run. */
void app_net_plan(struct app_net *net);
/* Call after app_net_plan(): proc is a separate process. It is reached by shm if the carrier does
 * not leave this process. */
void app_net_apart(struct app_net *net, unsigned proc);
/* Call after app_net_plan(): proc is a memory node that shares its pages (pool:). */
void app_net_pool(struct app_net *net, unsigned proc);
/* Return the values for lend_config; NULL if the process needs none. */
const char *app_net_listen(const struct app_net *net, unsigned proc);
const char *app_net_eal(const struct app_net *net, unsigned proc);
void app_net_ready(struct app_net *net, unsigned proc, const char *address);
/* Replaces the device in a server's address by the client's, where they are in one process. */
void app_net_cross(const struct app_net *net, unsigned client, char address[APP_ADDRESS_MAX]);
/* Returns the address that client passes to lend_connect() or lend_mem_open() to reach server. */
const char *app_net_address(const struct app_net *net, unsigned client, unsigned server);

#endif
