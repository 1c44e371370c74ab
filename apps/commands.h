/* commands - the functions behind lend's subcommands. argv[0] is the subcommand; each returns an
 * exit code. Layer: apps. */
#ifndef APPS_COMMANDS_H
#define APPS_COMMANDS_H

#include "apps/common/options.h"

int app_lat(int argc, char **argv);
int app_rate(int argc, char **argv);
int app_offered(int argc, char **argv); /* lend load */
int app_bw(int argc, char **argv);
int app_priority(int argc, char **argv);
int app_deadlines(int argc, char **argv);
int app_wait(int argc, char **argv);
int app_start(int argc, char **argv);
int app_connect(int argc, char **argv);
int app_chain(int argc, char **argv);
int app_hop(int argc, char **argv);
int app_loan(int argc, char **argv);
int app_loan_server(int argc, char **argv);
int app_training(int argc, char **argv);
int app_training_server(int argc, char **argv);
int app_mem(int argc, char **argv);
int app_mem_lat(int argc, char **argv); /* lend mem-lat */
int app_mem_bw(int argc, char **argv);
int app_snapshot(int argc, char **argv); /* lend snapshot-speed */
int app_cow(int argc, char **argv);
int app_mem_fault(int argc, char **argv);
int app_translate(int argc, char **argv);
int app_messages(int argc, char **argv);
int app_grpc_peers(int argc, char **argv); /* lend bench grpc */
int app_serialize(int argc, char **argv);
int app_malloc(int argc, char **argv);
int app_elastic(int argc, char **argv);
int app_elastic_worker(int argc, char **argv); /* the processes that elastic starts */
int app_elastic_function(int argc, char **argv);
int app_put(int argc, char **argv);
int app_get(int argc, char **argv);
int app_call(int argc, char **argv);
int app_grpc_bridge(int argc, char **argv);
int app_ping(int argc, char **argv);
int app_decap(int argc, char **argv);
int app_flood(int argc, char **argv);
int app_keygen(int argc, char **argv);
int app_top(int argc, char **argv);
int app_trace(int argc, char **argv);
int app_doctor(int argc, char **argv);
int app_serve(int argc, char **argv);
int app_grpc_run(int argc, char **argv);
/* Lets the programs that this one runs load the library of lend grpc-run; app_bad() without it. */
void app_grpc_preload(void);
int app_social(int argc, char **argv);
int app_protoc(int argc, char **argv);
/* Makes C for protoc, which runs `lend` without arguments and with this variable. */
#define APP_PROTOC_PLUGIN "LEND_PROTOC_PLUGIN"
int app_protoc_plugin(void);

/* These need libturbojpeg and are left out where it is not installed. */
int app_images(int argc, char **argv) __attribute__((weak));
int app_demo(int argc, char **argv) __attribute__((weak));
int app_load_target(int argc, char **argv) /* lend load --target; this one needs http_parser */
    __attribute__((weak));
int app_social_page(int argc, char **argv) __attribute__((weak)); /* needs jansson */
int app_tier(int argc, char **argv)
    __attribute__((weak)); /* one image service, started by images */

#endif
