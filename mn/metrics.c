#include "mn/metrics.h"

#include <errno.h>

#include "sys/last_error.h"

#ifdef LEND_MHD
#include <arpa/inet.h>
#include <inttypes.h>
#include <microhttpd.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "lend/stats.h"
#include "mn/accept.h"
#include "mn/node_worker.h"

struct mn_metrics {
	struct MHD_Daemon *daemon;
	int listener, stop; /* libmicrohttpd's own listener would spin when no descriptor is free */
	pthread_t thread;
	bool running;
	struct mn_worker *worker;
	uint32_t workers;
};

/* Returns whether a value goes up and down; all others only grow. */
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

	lend_stats_get(worker->ep, &stats);
	lend_store_set_tx_bytes(worker->store, stats.tx_bytes);
	lend_store_stats(worker->store, arg);
}

/* Names that end in _total are for counters; the number of existing pages is not a counter. */
static void name_of(const char *stat, char name[64])
{
	if (!strcmp(stat, "pages_total"))
		(void)snprintf(name, 64, "lend_mem_pages");
	else if (!strcmp(stat, "tx_bytes"))
		(void)snprintf(name, 64, "lend_mem_sent_bytes_total");
	else
		(void)snprintf(name, 64, "lend_mem_%s%s", stat, is_gauge(stat) ? "" : "_total");
}

static void write_metrics(FILE *out, const struct lend_memstats *stats, const bool *up, uint32_t n)
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

static struct MHD_Response *make_response(struct mn_metrics *m)
{
	struct lend_memstats *stats = calloc(m->workers, sizeof(*stats));
	bool up[LEND_MEMREF_WORKERS_MAX];
	char *text = NULL;
	size_t len = 0;
	FILE *out = stats ? open_memstream(&text, &len) : NULL;

	if (!out) {
		free(stats);
		return NULL;
	}
	for (uint32_t i = 0; i < m->workers; i++)
		up[i] = mn_query(&m->worker[i], read_stats, &stats[i]);
	write_metrics(out, stats, up, m->workers);
	fclose(out);
	free(stats);
	return text ? MHD_create_response_from_buffer(len, text, MHD_RESPMEM_MUST_FREE) : NULL;
}

static enum MHD_Result serve_request(void *arg, struct MHD_Connection *connection, const char *url,
				     const char *method, const char *version, const char *upload,
				     size_t *upload_len, void **state)
{
	static const char lost[] = "the metrics are at /metrics\n";
	bool found = !strcmp(url, "/metrics");
	struct MHD_Response *response;
	enum MHD_Result rc;

	(void)version, (void)upload, (void)upload_len, (void)state;
	if (strcmp(method, "GET") != 0 && strcmp(method, "HEAD") != 0)
		return MHD_NO;
	response = found ? make_response(arg)
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

static bool parse_address(const char *at, struct sockaddr_in *address, char ip[INET_ADDRSTRLEN])
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

static void *run_thread(void *arg)
{
	const struct sockaddr_in nowhere = {.sin_family = AF_INET};
	struct mn_metrics *m = arg;
	int fd;

	while ((fd = mn_accept(m->listener, m->stop, "--metrics")) >= 0)
		(void)MHD_add_connection(m->daemon, fd, (const void *)&nowhere, sizeof(nowhere));
	return NULL;
}

/* Binds the address; 0 or an errno. */
static int listen_at(struct mn_metrics *m, struct sockaddr_in *address)
{
	socklen_t len = sizeof(*address);
	int on = 1;

	m->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	m->stop = eventfd(0, EFD_CLOEXEC);
	if (m->listener < 0 || m->stop < 0 ||
	    setsockopt(m->listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) < 0 ||
	    bind(m->listener, (const void *)address, len) < 0 || listen(m->listener, 16) < 0 ||
	    getsockname(m->listener, (void *)address, &len) < 0)
		return errno;
	return 0;
}

static int start_daemon(struct mn_metrics *m)
{
	int rc;

	m->daemon = MHD_start_daemon(MHD_USE_INTERNAL_POLLING_THREAD | MHD_USE_AUTO |
					 MHD_USE_NO_LISTEN_SOCKET | MHD_USE_ITC,
				     0, NULL, NULL, serve_request, m, MHD_OPTION_CONNECTION_LIMIT,
				     16u, MHD_OPTION_CONNECTION_TIMEOUT, 10u, MHD_OPTION_END);
	if (!m->daemon)
		return errno ? errno : ENOMEM;
	rc = pthread_create(&m->thread, NULL, run_thread, m);
	m->running = rc == 0;
	return rc;
}

int mn_metrics_open(struct mn_worker *worker, uint32_t workers, const char *at, char url[64],
		    struct mn_metrics **out)
{
	char ip[INET_ADDRSTRLEN];
	struct sockaddr_in address;
	struct mn_metrics *m;
	int err;

	if (!parse_address(at, &address, ip))
		return lend_fail(EINVAL, "--metrics %s: give PORT or IP:PORT, as 127.0.0.1:9464",
				 at);
	m = calloc(1, sizeof(*m));
	if (!m)
		return lend_fail(ENOMEM, "no memory to serve --metrics");
	m->worker = worker;
	m->workers = workers;
	err = listen_at(m, &address);
	if (!err)
		err = start_daemon(m);
	if (err) {
		mn_metrics_close(m);
		return lend_fail(err, "--metrics %s: %s; give a free port, or 0 for any", at,
				 strerror(err));
	}
	(void)snprintf(url, 64, "http://%s:%u/metrics", ip, ntohs(address.sin_port));
	*out = m;
	return 0;
}

void mn_metrics_close(struct mn_metrics *metrics)
{
	if (!metrics)
		return;
	if (metrics->running) {
		(void)eventfd_write(metrics->stop, 1);
		(void)pthread_join(metrics->thread, NULL);
	}
	if (metrics->daemon)
		MHD_stop_daemon(metrics->daemon);
	if (metrics->listener >= 0)
		close(metrics->listener);
	if (metrics->stop >= 0)
		close(metrics->stop);
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
