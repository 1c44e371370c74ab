#include "kill/node_process.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

int lend_mn_main(int argc, char **argv); /* mn/lend_mn.c's main */
int __real_lend_open(const struct lend_config *config, struct lend_ep **ep);
int __wrap_lend_open(const struct lend_config *config, struct lend_ep **ep);

static bool is_node;

/* On a network, a reply to a process that died pins its pages until the session ends. That takes 5
 * s in a node; a shorter time here makes it happen more often. */
int __wrap_lend_open(const struct lend_config *config, struct lend_ep **ep)
{
	struct lend_config soon = *config;

	if (is_node) {
		soon.probe = 40 * MS;
		soon.dead = 200 * MS;
	}
	return __real_lend_open(&soon, ep);
}

static void live(const struct node *node, int out)
{
	char lease[16], size[16], workers[16], listen[104];
	const char *argv[] = {"lend-mn", "--listen", listen, "--size",    size,    "--clients",
			      "16",      "--lease",  lease,  "--workers", workers, NULL};

	(void)snprintf(lease, sizeof(lease), "%u", node->lease_ms);
	(void)snprintf(workers, sizeof(workers), "%u", node->page->workers);
	(void)snprintf(size, sizeof(size), "%s", node->size);
	(void)snprintf(listen, sizeof(listen), "%s", node->listen);
	is_node = true;
	dup2(out, 1);
	kill_be_alone();
	watch_begin(&node->page->early_reads);
	fuse_light(&node->page->fuse[ROLE_NODE]);
	_exit(lend_mn_main(11, (char **)(uintptr_t)argv));
}

/* "lend-mn: serving N bytes at ADDRESS" */
static bool read_address(int fd, char address[104])
{
	char line[256];
	size_t n = 0;
	const char *at;

	while (n + 1 < sizeof(line) && read(fd, line + n, 1) == 1 && line[n] != '\n')
		n++;
	line[n] = 0;
	at = strstr(line, " at ");
	return at && sscanf(at, " at %103s", address) == 1;
}

bool node_start(struct node *node, int32_t fuse)
{
	int fds[2];
	bool fine;

	if (pipe(fds))
		return false;
	fuse_arm(&node->page->fuse[ROLE_NODE], fuse);
	(void)fflush(NULL);
	node->pid = fork();
	if (node->pid == 0)
		live(node, fds[1]);
	close(fds[1]);
	fine = node->pid > 0 && read_address(fds[0], node->page->node);
	close(fds[0]);
	if (!fine)
		node_kill(node);
	else
		memcpy(node->listen, node->page->node, sizeof(node->listen));
	return fine;
}

void node_kill(struct node *node)
{
	if (node->pid <= 0)
		return;
	kill(node->pid, SIGKILL);
	(void)waitpid(node->pid, NULL, 0);
	node->pid = 0;
}

bool node_is_dead(struct node *node)
{
	if (node->pid > 0 && waitpid(node->pid, NULL, WNOHANG) == node->pid)
		node->pid = 0;
	return node->pid <= 0;
}

bool node_stop(struct node *node)
{
	int status;

	if (node_is_dead(node))
		return false;
	kill(node->pid, SIGTERM);
	if (waitpid(node->pid, &status, 0) != node->pid)
		return false;
	node->pid = 0;
	return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}
