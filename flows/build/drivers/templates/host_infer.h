/* SPDX-License-Identifier: Apache-2.0 */
#ifndef @NAME@_INFER_H
#define @NAME@_INFER_H

#include <stdint.h>

#include "@name@_driver.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The compiled network: addresses in the engine's memory, sizes in bytes. */
@FACTS@

/*% include "pieces/host.h" %*/

/* What the network takes, and where it puts what it gives: the last index goes fastest. */
typedef struct {
@INPUTS@
} @name@_inputs;

typedef struct {
@OUTPUTS@
} @name@_outputs;

/* What the functions return beside the statuses of the driver. */
enum {
    @NAME@_E_INDEX = -100, /* a number that elements are looked up by is out of range */
    @NAME@_E_NUMBER = -101 /* numbers to be quantised are infinite, none, or all too small */
};

/* Put image.bin into the engine's memory. */
void @name@_prepare(const @name@_host *host, const void *image);

/* Compute the outputs of a frame. */
int @name@_infer(const @name@_host *host, const @name@_inputs *inputs,
                 const @name@_outputs *outputs);

/*% include "pieces/close.h" %*/
