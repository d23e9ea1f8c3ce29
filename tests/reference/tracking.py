# SPDX-License-Identifier: Apache-2.0
"""Figures of tracks by motmetrics and TrackEval, to compare with those of `jetwatch track --metrics`.

    python3 -m venv .cache/tracking
    .cache/tracking/bin/pip install motmetrics==1.4.0 trackeval==1.3.0
    .cache/tracking/bin/python tests/reference/tracking.py gt.txt tracks.txt

Both files are in the text format of MOTChallenge. MOTP is the mean overlap with both.
"""
import sys, numpy as np
import motmetrics as mm
def load(path, truth):
    a=np.loadtxt(path,delimiter=',',ndmin=2)
    if truth: a=a[a[:,6]>0]
    return a
def iou(a,b):
    x=np.minimum(a[:,None,2],b[None,:,2])-np.maximum(a[:,None,0],b[None,:,0])
    y=np.minimum(a[:,None,3],b[None,:,3])-np.maximum(a[:,None,1],b[None,:,1])
    i=np.clip(x,0,None)*np.clip(y,0,None)
    ar=lambda r:(r[:,2]-r[:,0])*(r[:,3]-r[:,1])
    return i/(ar(a)[:,None]+ar(b)[None,:]-i)
def main(gt,tr):
    g,t=load(gt,True),load(tr,False)
    for r in (g,t): r[:,4]+=r[:,2]; r[:,5]+=r[:,3]
    acc=mm.MOTAccumulator()
    frames=sorted(set(g[:,0])|set(t[:,0]))
    gi={v:i for i,v in enumerate(sorted(set(g[:,1])))}; ti={v:i for i,v in enumerate(sorted(set(t[:,1])))}
    d={'gt_ids':[],'tracker_ids':[],'similarity_scores':[],'num_gt_ids':len(gi),'num_tracker_ids':len(ti),'num_gt_dets':len(g),'num_tracker_dets':len(t),'num_timesteps':len(frames),'seq':'s'}
    for f in frames:
        a,b=g[g[:,0]==f],t[t[:,0]==f]
        s=iou(a[:,2:6],b[:,2:6])
        dist=np.where(s>=0.5,1-s,np.nan)
        acc.update(a[:,1].astype(int),b[:,1].astype(int),dist,frameid=int(f))
        d['gt_ids'].append(np.array([gi[v] for v in a[:,1]],int)); d['tracker_ids'].append(np.array([ti[v] for v in b[:,1]],int)); d['similarity_scores'].append(s)
    m=mm.metrics.create().compute(acc,metrics=['mota','motp','idf1','num_switches','num_false_positives','num_misses','num_objects'],name='s').iloc[0]
    print('motmetrics  MOTA %.2f MOTP %.2f IDF1 %.2f sw %d FP %d FN %d n %d'%(100*m.mota,100*(1-m.motp),100*m.idf1,m.num_switches,m.num_false_positives,m.num_misses,m.num_objects))
    import trackeval
    np.float=float; np.int=int; np.bool=bool
    import io,contextlib
    with contextlib.redirect_stdout(io.StringIO()):
        h=trackeval.metrics.HOTA().eval_sequence(d); c=trackeval.metrics.CLEAR({'PRINT_CONFIG':False}).eval_sequence(d); i=trackeval.metrics.Identity({'PRINT_CONFIG':False}).eval_sequence(d)
    print('TrackEval   MOTA %.2f MOTP %.2f IDF1 %.2f HOTA %.2f DetA %.2f AssA %.2f sw %d FP %d FN %d'%(100*c['MOTA'],100*c['MOTP'],100*i['IDF1'],100*h['HOTA'].mean(),100*h['DetA'].mean(),100*h['AssA'].mean(),c['IDSW'],c['CLR_FP'],c['CLR_FN']))
if __name__=='__main__': main(*sys.argv[1:3])
