// SPDX-License-Identifier: Apache-2.0
//! The timed steps of the pipeline, by name and kind.

/// One timed step of the pipeline, in processing order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(usize)]
pub enum Stage {
    /// Time in a source's thread outside of its other stages: reading, receiving and demultiplexing, and waiting for the next
    /// image of a camera. Reports derive it; it has no range.
    Input,
    /// A thread in a video decoder on the CPU, without what the decoder calls behind it. Its CPU time includes the codec's own
    /// threads.
    VideoDecode,
    /// From a coded image's entry into a video decoder to its exit. Decoders hold several images, so these spans overlap.
    VideoDecodeStay,
    /// A thread in the elements that scale and convert, or scaling and converting in jetwatch itself.
    Scale,
    /// From a decoded image's entry into the elements that scale and convert it to its exit.
    ScaleStay,
    /// Mapping a scaled image from GStreamer, or drawing a synthetic one.
    Source,
    /// Passing a frame to the queue of its source. The reader of a file waits here for room.
    Enqueue,
    /// Waiting for frames until a batch is full or its timeout passes.
    Batch,
    /// Writing the input tensor: padding, layout, normalization.
    Tensor,
    /// The network.
    Infer,
    /// Raw output to boxes: decoding and non-maximum suppression.
    Decode,
    /// Passing the results of a batch to the tracking stage, with the wait for room in its queue.
    SendResults,
    /// Detections to tracks.
    Track,
    /// Tracks to messages, up to the queue of each sink.
    Publish,
    /// Waiting for crops until a batch of a secondary network is full or its timeout passes.
    SecondaryWait,
    /// A batch of crops through a secondary network: scaling, tensor, inference, and decoding.
    Secondary,
    /// A frame drawn for the recording: its image copied or tiled, boxes and labels drawn over it.
    Render,
    /// A drawn image passed to the encoder: waiting for a free buffer, and copying where sources share the image.
    Encode,
    /// On a GPU, by the GPU's clock, inside [`Infer`](Self::Infer): copy of the images from the host.
    GpuCopyIn,
    /// On a GPU: images to the input tensor.
    GpuTensor,
    /// On a GPU: the network.
    GpuNetwork,
    /// On a GPU: copy of the outputs to the host.
    GpuCopyOut,
}

impl Stage {
    /// All stages in order: those of sources, of the other threads of jetwatch, then those of a GPU.
    pub const ALL: [Self; 22] = [
        Self::Input,
        Self::VideoDecode,
        Self::VideoDecodeStay,
        Self::Scale,
        Self::ScaleStay,
        Self::Source,
        Self::Enqueue,
        Self::Batch,
        Self::Tensor,
        Self::Infer,
        Self::Decode,
        Self::SendResults,
        Self::Track,
        Self::Publish,
        Self::SecondaryWait,
        Self::Secondary,
        Self::Render,
        Self::Encode,
        Self::GpuCopyIn,
        Self::GpuTensor,
        Self::GpuNetwork,
        Self::GpuCopyOut,
    ];

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
    pub const fn is_optional(self) -> bool {
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

    /// The name in reports and on the timeline.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Input => "input",
            Self::VideoDecode => "video_decode",
            Self::VideoDecodeStay => "video_decode_stay",
            Self::Scale => "scale",
            Self::ScaleStay => "scale_stay",
            Self::Source => "source",
            Self::Enqueue => "enqueue",
            Self::Batch => "batch",
            Self::Tensor => "tensor",
            Self::Infer => "infer",
            Self::Decode => "decode",
            Self::SendResults => "send_results",
            Self::Track => "track",
            Self::Publish => "publish",
            Self::SecondaryWait => "secondary_wait",
            Self::Secondary => "secondary",
            Self::Render => "render",
            Self::Encode => "encode",
            Self::GpuCopyIn => "gpu_copy_in",
            Self::GpuTensor => "gpu_tensor",
            Self::GpuNetwork => "gpu_network",
            Self::GpuCopyOut => "gpu_copy_out",
        }
    }
}
