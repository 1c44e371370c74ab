/* hosts - see hosts.h. */
#include "apps/common/hosts.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "apps/common/closed_loop.h"
#include "apps/common/report.h"
#include "lend/carrier.h"

enum { LINE_BYTES = 2048 };
#define AWAIT_NS UINT64_C(30000000000)

/* Copies the next token of a line. Returns its length; 0: none is left; -1: longer than cap. */
static int take_token(const char **at, char *token, size_t cap)
{
	const char *from = *at + strspn(*at, " \t\r\n");
	size_t len = strcspn(from, " \t\r\n");

	*at = from + len;
	if (len >= cap)
		return -1;
	memcpy(token, from, len);
	token[len] = 0;
	return (int)len;
}

/* Checks an address as far as no other machine is needed. Returns what is wrong, or NULL. */
static const char *refuse_address(const char *address)
{
	uint32_t traits = lend_carrier_traits(address);

	if (traits & (LEND_CARRIER_SAME_HOST | LEND_CARRIER_NAMES | LEND_CARRIER_BROKERED))
		return "does not leave its machine; give udp:IP:PORT, or dpdk:DEV@IP:PORT";
	return traits && strchr(strchr(address, ':') + 1, ':')
		   ? NULL
		   : "is no address; give udp:IP:PORT, dpdk:DEV@IP:PORT or verbs:DEV@IP:PORT";
}

static void parse_line(struct app_hosts *hosts, const char *at, unsigned line)
{
	struct app_host *host = &hosts->host[hosts->n];
	const struct app_host *other;
	const char *wrong;
	size_t len;
	int role = take_token(&at, host->role, sizeof(host->role));

	if (role == 0 || host->role[0] == '#')
		return;
	if (hosts->n + 1 == APP_PROCS_MAX)
		app_bad("%s:%u: too many lines; a run has at most %d processes", hosts->path, line,
			APP_PROCS_MAX - 1);
	if (role < 0 || take_token(&at, host->machine, sizeof(host->machine)) <= 0 ||
	    take_token(&at, host->address, sizeof(host->address)) <= 0)
		app_bad("%s:%u: a line is ROLE MACHINE ADDRESS, such as: hop1 b "
			"udp:10.0.0.2:31850",
			hosts->path, line);
	wrong = refuse_address(host->address);
	if (wrong)
		app_bad("%s:%u: %s %s", hosts->path, line, host->address, wrong);
	other = app_hosts_find(hosts, host->role);
	if (other)
		app_bad("%s:%u: %s is in line %u, too: remove one of the lines", hosts->path, line,
			host->role, other->line);
	at += strspn(at, " \t");
	len = strcspn(at, "#\r\n");
	if (len >= sizeof(host->eal))
		app_bad("%s:%u: EAL's arguments have more than %zu bytes; shorten them",
			hosts->path, line, sizeof(host->eal) - 1);
	memcpy(host->eal, at, len);
	host->eal[len] = 0;
	host->line = line;
	hosts->n++;
}

static void check_here(const struct app_hosts *hosts)
{
	for (unsigned i = 0; i < hosts->n; i++)
		if (!strcmp(hosts->host[i].machine, hosts->here))
			return;
	app_bad("%s: no line for the machine %s; add one, or give --here one of those in the file",
		hosts->path, hosts->here);
}

void app_hosts_read(struct app_hosts *hosts)
{
	static char name[256];
	char text[LINE_BYTES];
	FILE *file = fopen(hosts->path, "re");
	unsigned line = 0;

	if (!file)
		app_bad("--hosts %s: %s", hosts->path, strerror(errno));
	while (fgets(text, sizeof(text), file)) {
		line++;
		if (!strchr(text, '\n') && !feof(file))
			app_bad("%s:%u: longer than %d bytes; shorten it", hosts->path, line,
				LINE_BYTES - 2);
		parse_line(hosts, text, line);
	}
	if (ferror(file))
		app_bad("--hosts %s: %s", hosts->path, strerror(errno));
	fclose(file);
	if (!hosts->here && gethostname(name, sizeof(name) - 1) == 0)
		hosts->here = name;
	check_here(hosts);
}

const struct app_host *app_hosts_find(const struct app_hosts *hosts, const char *role)
{
	for (unsigned i = 0; i < hosts->n; i++)
		if (!strcmp(hosts->host[i].role, role))
			return &hosts->host[i];
	return NULL;
}

static const struct app_host *find_role(const struct app_hosts *hosts, const char *role)
{
	const struct app_host *host = app_hosts_find(hosts, role);

	if (!host)
		app_bad("%s: no line for %s; add: %s MACHINE udp:IP:PORT", hosts->path, role, role);
	return host;
}

void app_hosts_carrier(const struct app_hosts *hosts, enum app_carrier *carrier)
{
	(void)app_carrier_parse(find_role(hosts, "client")->address, carrier);
}

/* Returns whether an address leaves its port to the carrier. */
static bool has_no_port(const char *address)
{
	size_t end = strcspn(address, "?");

	return end < 2 || (address[end - 1] == '0' && address[end - 2] == ':');
}

bool app_hosts_place(struct app_hosts *hosts, struct app_net *net, unsigned proc, const char *role,
		     bool serves)
{
	struct app_host *host = &hosts->host[find_role(hosts, role) - hosts->host];

	if (serves && has_no_port(host->address))
		app_bad("%s:%u: %s: give a port, by which the other machines reach %s", hosts->path,
			host->line, host->address, role);
	host->used = true;
	memcpy(net->listen[proc], host->address, APP_ADDRESS_MAX);
	memcpy(net->eal[proc], host->eal, APP_EAL_MAX);
	app_net_ready(net, proc, host->address);
	return !strcmp(host->machine, hosts->here);
}

void app_hosts_check(const struct app_hosts *hosts, const char *roles)
{
	for (unsigned i = 0; i < hosts->n; i++)
		if (!hosts->host[i].used)
			app_bad("%s:%u: %s has no process in this run; the roles are %s",
				hosts->path, hosts->host[i].line, hosts->host[i].role, roles);
}

void app_hosts_wait(const struct app_hosts *hosts)
{
	siginfo_t info = {.si_pid = 0};
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGCHLD);
	sigprocmask(SIG_BLOCK, &set, NULL);
	printf("ready %s\n", hosts->here);
	fflush(stdout);
	/* A child may have ended before its signal was blocked. */
	while (waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid == 0)
		if (sigwaitinfo(&set, NULL) != SIGCHLD)
			return;
	app_die("a process of this machine ended; its own line is above");
}

void app_hosts_await(const struct app_hosts *hosts, enum lend_status (*call)(void *arg), void *arg)
{
	const struct timespec delay = {.tv_nsec = 50000000};
	lend_ns end = app_now() + AWAIT_NS;
	enum lend_status status;

	while ((status = call(arg)) != LEND_OK) {
		if (app_now() > end && !hosts->path)
			app_die("the service at --connect does not answer (%s): start it, or fix "
				"the address",
				app_status_name(status));
		if (app_now() > end)
			app_die("the other machines do not answer (%s): start the same command on "
				"each machine of %s, with its --here",
				app_status_name(status), hosts->path);
		nanosleep(&delay, NULL);
	}
}
