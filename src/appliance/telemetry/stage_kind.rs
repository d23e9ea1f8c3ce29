// SPDX-License-Identifier: Apache-2.0
//! The timed steps of the pipeline, by name and kind.

jetwatch_types::named_enum! {
    /// One timed step of the pipeline, in processing order.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
    #[repr(usize)]
    pub enum Stage {
        /// Time in a source's thread outside of its other stages: reading, receiving and demultiplexing, and waiting for the next
        /// image of a camera. Reports derive it; it has no range.
        Input = "input",
        /// A thread in a video decoder on the CPU, without what the decoder calls behind it. Its CPU time includes the codec's own
        /// threads.
        VideoDecode = "video_decode",
        /// From a coded image's entry into a video decoder to its exit. Decoders hold several images, so these spans overlap.
        VideoDecodeStay = "video_decode_stay",
        /// A thread in the elements that scale and convert, or scaling and converting in jetwatch itself.
        Scale = "scale",
        /// From a decoded image's entry into the elements that scale and convert it to its exit.
        ScaleStay = "scale_stay",
        /// Mapping a scaled image from GStreamer, or drawing a synthetic one; with the CPU time of a launch line's own elements
        /// outside of the other stages.
        Source = "source",
        /// Passing a frame to the queue of its source. The reader of a file waits here for room.
        Enqueue = "enqueue",
        /// Waiting for frames until a batch is full or its timeout passes.
        Batch = "batch",
        /// Writing the input tensor: padding, layout, normalization.
        Tensor = "tensor",
        /// The network.
        Infer = "infer",
        /// Raw output to boxes: decoding and non-maximum suppression.
        Decode = "decode",
        /// Passing the results of a batch to the tracking stage, with the wait for room in its queue.
        SendResults = "send_results",
        /// Detections to tracks.
        Track = "track",
        /// Tracks to messages, up to the queue of each sink.
        Publish = "publish",
        /// Waiting for crops until a batch of a secondary network is full or its timeout passes.
        SecondaryWait = "secondary_wait",
        /// A batch of crops through a secondary network: scaling, tensor, inference, and decoding.
        Secondary = "secondary",
        /// A frame drawn for the recording: its image copied or tiled, boxes and labels drawn over it.
        Render = "render",
        /// A drawn image passed to the encoder: waiting for a free buffer, and copying where sources share the image.
        Encode = "encode",
        /// On a GPU, by the GPU's clock, inside [`Infer`](Self::Infer): copy of the images from the host.
        GpuCopyIn = "gpu_copy_in",
        /// On a GPU: images to the input tensor.
        GpuTensor = "gpu_tensor",
        /// On a GPU: the network.
        GpuNetwork = "gpu_network",
        /// On a GPU: copy of the outputs to the host.
        GpuCopyOut = "gpu_copy_out",
    }

    /// The name in reports and on the timeline.
    pub fn name;
}

impl Stage {
    /// Whether the stage runs on a GPU. Reports contain it only where there is one.
    #[must_use]
    pub const fn is_on_gpu(self) -> bool {
        matches!(
            self,
            Self::GpuCopyIn | Self::GpuTensor | Self::GpuNetwork | Self::GpuCopyOut
        )
    }

    /// Whether reports contain the stage only if it ran.
    #[must_use]
    pub(crate) const fn is_optional(self) -> bool {
        self.is_on_gpu()
            || self.is_asynchronous()
            || self.is_stay()
            || matches!(
                self,
                Self::Input | Self::VideoDecode | Self::Scale | Self::Enqueue | Self::SendResults
            )
    }

    /// Whether the pipeline does not wait for the stage: secondary networks and the recording.
    #[must_use]
    pub const fn is_asynchronous(self) -> bool {
        matches!(
            self,
            Self::SecondaryWait | Self::Secondary | Self::Render | Self::Encode
        )
    }

    /// Whether the stage is the time that an image spends in elements. Its spans belong to no thread, overlap, and are no work.
    #[must_use]
    pub const fn is_stay(self) -> bool {
        matches!(self, Self::VideoDecodeStay | Self::ScaleStay)
    }

    /// Whether a thread does nothing in the stage but wait for another one, or mostly so.
    #[must_use]
    pub const fn is_wait(self) -> bool {
        matches!(
            self,
            Self::Input | Self::Enqueue | Self::Batch | Self::SendResults | Self::SecondaryWait
        )
    }

    /// Whether the threads of sources run the stage.
    #[must_use]
    pub const fn is_of_source(self) -> bool {
        matches!(
            self,
            Self::Input
                | Self::VideoDecode
                | Self::VideoDecodeStay
                | Self::Scale
                | Self::ScaleStay
                | Self::Source
                | Self::Enqueue
        )
    }
}
