// SPDX-License-Identifier: Apache-2.0
// nvarguscamerasrc's and nvv4l2camerasrc's doubles: cameras that show a moving pattern, and fail as tests ask them to.
#pragma once
#include <gst/gst.h>

GType argus_camera_get_type();
GType v4l2_camera_get_type();
