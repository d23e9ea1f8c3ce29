//! placeholder until merged
use crate::config::SyntheticScene; use crate::types::{Size,TruthBox};
pub struct Scene; impl Scene { pub fn new(_:&SyntheticScene)->Self{Scene} pub fn draw(&mut self,_:u64,_:Size,_:&mut [u8],_:usize){} pub fn truth_into(&mut self,_:u64,_:&mut Vec<TruthBox>){} }
