/* lend/lend.pb-c.h - included by what protoc-c makes of a file that imports lend/lend.proto, which
 * has only options. */
#ifndef LEND_LEND_PB_C_H
#define LEND_LEND_PB_C_H

#include <protobuf-c/protobuf-c.h>

#endif
