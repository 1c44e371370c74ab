/* peer_args - see peer_args.h. */
#include "apps/peers/peer_args.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "apps/common/options.h"
#include "apps/common/closed_loop.h"

static void print_lanes(const struct lend_option *option, void *args, char *value)
{
	(void)option, (void)args, (void)value;
	for (const struct peer_lane *lane = peer_this.lane; lane->name; lane++)
		printf("%s %llu %u\n", lane->name, (unsigned long long)lane->len_max,
		       lane->window_max);
	exit(APP_EXIT_OK);
}

static const struct lend_option options[] = {
    OPT_TEXT(struct peer_args, job.lane, "lane", "NAME",
	     "What it goes over (--lanes lists them); the first unless given", .key = 'l'),
    OPT_TAKEN("lanes", NULL, print_lanes,
	      "Print the lanes: name, longest request, most in flight; 0: any"),
    OPT_SIZE(struct peer_args, job.request, "request", 8, APP_PATTERN_MAX,
	     "Bytes of each request (64)"),
    OPT_SIZE(struct peer_args, job.reply, "reply", 8, APP_PATTERN_MAX,
	     "Bytes of each answer: as many as the request, or 8"),
    OPT_NUMBER(struct peer_args, job.window, "window", 1, PEER_WINDOW_MAX, "Requests in flight (1)",
	       .key = 'w'),
    OPT_NUMBER(struct peer_args, job.sessions, "sessions", 1, 1024,
	       "Connections that requests use in turns (1)"),
    OPT_FLAG(struct peer_args, free, "free", "Both processes may run on any CPU"),
    OPT_TIME(struct peer_args, time, "seconds", "How long (1)"),
    OPT_FLAG(struct peer_args, job.ends, "ends",
	     "The server reads the first and last 4 KiB, not every byte"),
    OPT_FLAG(struct peer_args, job.rewrite, "rewrite",
	     "The client writes the bytes of each request again"),
    OPT_FLAG(struct peer_args, job.sleep, "sleep", "Both ends sleep while they wait"),
    OPT_NUMBER(struct peer_args, count, "count", 1, UINT32_MAX,
	       "End after N requests, for a profiler"),
    OPT_FLAG(struct peer_args, serve, "serve",
	     "Only the server: prints its address, and at SIGTERM its CPU time"),
    OPT_JSON(struct peer_args, json),
    {.name = NULL}};

static void choose_lane(void *input)
{
	struct peer_args *args = input;
	struct peer_job *job = &args->job;
	const struct peer_lane *lane = peer_this.lane;

	job->reply = job->reply ? job->reply : job->request;
	if (!peer_is_echo(job) && job->reply != PEER_SUM_LEN)
		app_bad("--reply %llu: give 8, or as many as the request has",
			(unsigned long long)job->reply);
	while (lane->name && job->lane && strcmp(lane->name, job->lane))
		lane++;
	if (!lane->name)
		app_bad("--lane %s: no such lane; --lanes lists them", job->lane);
	args->lane = lane;
	job->lane = lane->name;
	if (lane->len_max && job->request > lane->len_max)
		app_bad("%s: takes requests of up to %llu bytes", job->lane,
			(unsigned long long)lane->len_max);
	if (lane->window_max && job->window > lane->window_max)
		app_bad("%s: takes up to %u in flight", job->lane, lane->window_max);
	if (job->sessions > 1 && job->sessions > lane->sessions_max)
		app_bad("--sessions %u: %s has one", job->sessions, job->lane);
}

void peer_args_read(struct peer_args *args, int argc, char **argv)
{
	static const struct lend_syntax syntax = {
	    .option = options,
	    .check = choose_lane,
	    .doc = "Requests to a server on another core, timed and checked; see "
		   "scripts/compare.sh.\v"
		   "examples:\n  --request 64\n  --lane tcp --request 32 --reply 8 --window 64 "
		   "--json\n  --request 8M --reply 8 --window 2 --ends"};

	*args = (struct peer_args){.job = {.request = 64, .window = 1, .sessions = 1},
				   .time = 1000000000};
	app_options_read(&syntax, argc, argv, args);
}
