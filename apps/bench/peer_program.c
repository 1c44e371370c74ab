/* peer_program - see peer_program.h. */
#include "apps/bench/peer_program.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "apps/common/options.h"
#include "apps/common/spawn.h"

bool app_peer_find(const char *name, char path[APP_PEER_PATH])
{
	char file[64];

	(void)snprintf(file, sizeof(file), "peer-%s", name);
	return app_program_find(file, LEND_PROGRAM_FOLDER, path, APP_PEER_PATH);
}

void app_peer_run(const char *path, const char *options, char line[APP_PEER_LINE])
{
	char command[2 * APP_PEER_PATH];
	FILE *out;
	int status;

	(void)snprintf(command, sizeof(command), "exec '%s' --json %s", path, options);
	out = popen(command, "r");
	if (!out || !fgets(line, APP_PEER_LINE, out))
		*line = 0;
	status = out ? pclose(out) : -1;
	if (status || !*line)
		app_die("%s: ended %s", path, status ? "with the error above" : "without a result");
}

double app_peer_figure(const char *line, const char *key)
{
	char quoted[40];
	const char *at;

	(void)snprintf(quoted, sizeof(quoted), "\"%s\": ", key);
	at = strstr(line, quoted);
	if (!at)
		app_die("a program printed no %s", key);
	return strtod(at + strlen(quoted), NULL);
}
