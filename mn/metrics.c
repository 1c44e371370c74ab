#include "mn/metrics.h"

#include <errno.h>

#include "sys/why.h"

#ifdef LEND_MHD
#include <arpa/inet.h>
#include <inttypes.h>
#include <microhttpd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lend/stats.h"
#include "mn/worker.h"

struct mn_metrics {
	struct MHD_Daemon *daemon;
	struct mn_worker *worker;
	uint32_t workers;
};

/* What goes up and down; all else only grows. */
static bool is_gauge(const char *name)
{
	static const char *const gauges[] = {
	    "pages_total", "pages_used", "pages_pinned", "pages_quarantined",
	    "refs",        "spaces",     "clients",      "incarnations",
	    "holds",       "grants",     "nodes_used",   "liens",
	    "page_bytes"};

	for (size_t i = 0; i < sizeof(gauges) / sizeof(gauges[0]); i++)
		if (!strcmp(name, gauges[i]))
			return true;
	return false;
}

static void read_stats(struct mn_worker *worker, void *arg)
{
	struct lend_stats stats;

	lend_stats(worker->ep, &stats);
	lend_store_set_tx_bytes(worker->store, stats.tx_bytes);
	lend_store_stats(worker->store, arg);
}

/* A name that ends in _total is a counter's: the number of pages there are is not. */
static void name_of(const char *stat, char name[64])
{
	if (!strcmp(stat, "pages_total"))
		(void)snprintf(name, 64, "lend_mem_pages");
	else if (!strcmp(stat, "tx_bytes"))
		(void)snprintf(name, 64, "lend_mem_sent_bytes_total");
	else
		(void)snprintf(name, 64, "lend_mem_%s%s", stat, is_gauge(stat) ? "" : "_total");
}

static void say(FILE *out, const struct lend_memstats *stats, const bool *up, uint32_t n)
{
	char name[64];

#define X(stat, text)                                                                              \
	name_of(#stat, name);                                                                      \
	fprintf(out, "# HELP %s " text "\n# TYPE %s %s\n", name, name,                             \
		is_gauge(#stat) ? "gauge" : "counter");                                            \
	for (uint32_t i = 0; i < n; i++)                                                           \
		if (up[i])                                                                         \
			fprintf(out, "%s{worker=\"%" PRIu32 "\"} %" PRIu64 "\n", name, i,          \
				stats[i].stat);
	LEND_MEM_STATS(X)
#undef X
}

static struct MHD_Response *tell(struct mn_metrics *m)
{
	struct lend_memstats *stats = calloc(m->workers, sizeof(*stats));
	bool up[LEND_MEMREF_SHARDS_MAX];
	char *text = NULL;
	size_t len = 0;
	FILE *out = stats ? open_memstream(&text, &len) : NULL;

	if (!out) {
		free(stats);
		return NULL;
	}
	for (uint32_t i = 0; i < m->workers; i++)
		up[i] = mn_ask(&m->worker[i], read_stats, &stats[i]);
	say(out, stats, up, m->workers);
	fclose(out);
	free(stats);
	return text ? MHD_create_response_from_buffer(len, text, MHD_RESPMEM_MUST_FREE) : NULL;
}

static enum MHD_Result serve(void *arg, struct MHD_Connection *connection, const char *url,
			     const char *method, const char *version, const char *upload,
			     size_t *upload_len, void **state)
{
	static const char lost[] = "what is here is at /metrics\n";
	bool found = !strcmp(url, "/metrics");
	struct MHD_Response *response;
	enum MHD_Result rc;

	(void)version, (void)upload, (void)upload_len, (void)state;
	if (strcmp(method, "GET") != 0 && strcmp(method, "HEAD") != 0)
		return MHD_NO;
	response = found ? tell(arg)
			 : MHD_create_response_from_buffer(
			       sizeof(lost) - 1, (void *)(uintptr_t)lost, MHD_RESPMEM_PERSISTENT);
	if (!response)
		return MHD_NO;
	(void)MHD_add_response_header(response, "Content-Type",
				      found ? "text/plain; version=0.0.4; charset=utf-8"
					    : "text/plain");
	rc = MHD_queue_response(connection, found ? MHD_HTTP_OK : MHD_HTTP_NOT_FOUND, response);
	MHD_destroy_response(response);
	return rc;
}

static bool parse(const char *at, struct sockaddr_in *address, char ip[INET_ADDRSTRLEN])
{
	const char *colon = strrchr(at, ':');
	size_t n = colon ? (size_t)(colon - at) : 0;
	unsigned long port;
	char *end;

	if (n >= INET_ADDRSTRLEN)
		return false;
	memcpy(ip, colon ? at : "127.0.0.1", colon ? n : 10);
	ip[colon ? n : 9] = 0;
	at = colon ? colon + 1 : at;
	port = strtoul(at, &end, 10);
	memset(address, 0, sizeof(*address));
	address->sin_family = AF_INET;
	address->sin_port = htons((uint16_t)port);
	return end != at && !*end && port < 65536 &&
	       inet_pton(AF_INET, ip, &address->sin_addr) == 1;
}

int mn_metrics_open(struct mn_worker *worker, uint32_t workers, const char *at, char url[64],
		    struct mn_metrics **out)
{
	char ip[INET_ADDRSTRLEN];
	struct sockaddr_in address;
	struct mn_metrics *m;

	if (!parse(at, &address, ip))
		return lend_fail(EINVAL, "--metrics %s: give PORT or IP:PORT, as 127.0.0.1:9464",
				 at);
	m = calloc(1, sizeof(*m));
	if (!m)
		return lend_fail(ENOMEM, "no memory to serve --metrics");
	m->worker = worker;
	m->workers = workers;
	m->daemon =
	    MHD_start_daemon(MHD_USE_INTERNAL_POLLING_THREAD | MHD_USE_AUTO, 0, NULL, NULL, serve,
			     m, MHD_OPTION_SOCK_ADDR, &address, MHD_OPTION_CONNECTION_LIMIT, 16u,
			     MHD_OPTION_CONNECTION_TIMEOUT, 10u, MHD_OPTION_END);
	if (!m->daemon) {
		free(m);
		return lend_fail(EADDRINUSE, "--metrics %s: %s; give a free port, or 0 for any", at,
				 strerror(errno));
	}
	(void)snprintf(url, 64, "http://%s:%u/metrics", ip,
		       MHD_get_daemon_info(m->daemon, MHD_DAEMON_INFO_BIND_PORT)->port);
	*out = m;
	return 0;
}

void mn_metrics_close(struct mn_metrics *metrics)
{
	if (!metrics)
		return;
	MHD_stop_daemon(metrics->daemon);
	free(metrics);
}
#else
int mn_metrics_open(struct mn_worker *worker, uint32_t workers, const char *at, char url[64],
		    struct mn_metrics **out)
{
	(void)worker, (void)workers, (void)url, (void)out;
	return lend_fail(ENOSYS,
			 "--metrics %s: not in this build; install libmicrohttpd-dev and build "
			 "again",
			 at);
}

void mn_metrics_close(struct mn_metrics *metrics)
{
	(void)metrics;
}
#endif
