#ifndef @NAME@_GENERATE_H
#define @NAME@_GENERATE_H

#include <stdint.h>

#include "@name@_driver.h"

#ifdef __cplusplus
extern "C" {
#endif
