/* victim - the processes that are killed: a client with random operations, and a server that takes
 * references out of requests. Layer: test. Each is a fork of the supervisor; exit status 0, or a
 * violation in the page. */
#ifndef TEST_KILL_VICTIM_H
#define TEST_KILL_VICTIM_H

#include "kill/kill.h"

/* Random operations until it is killed; with a server at page->server, calls to it, too. */
pid_t victim_client(struct kill_page *page, uint64_t seed);
/* Serves at listen until it is killed, or until SIGTERM. */
pid_t victim_server(struct kill_page *page, const char *listen);

#endif
