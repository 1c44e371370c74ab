/* broker/thread - brokers in threads of a test. Layer: test. */
#ifndef LEND_TEST_IO_BROKER_THREAD_H
#define LEND_TEST_IO_BROKER_THREAD_H

#include "broker/broker.h"

/* Opens a broker of a device. name: its name, new in each call, valid until the process ends. */
struct lend_broker *broker_open(const char *device, const char **name);
/* The same, and runs it in a thread until the process ends. Returns its name. */
const char *broker_thread_start(const char *device);

#endif
